package efa

import (
	"fmt"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
)

// Request is what Post takes: *SendReq or *RecvReq. The struct is copied at the
// call and may be used again at once; the buffer, and the pieces of a receive's
// Bufs, are lent until the completion.
type Request interface{ request() }

// SendReq is a message to send.
type SendReq struct {
	To     Addr
	Buf    []byte
	Bufs   [][]byte // instead of Buf: pieces of one message, gathered at the call
	Tagged bool
	Tag    uint64
	// HasData sends Data along as remote CQ data.
	HasData bool
	Data    uint64
	Inject  bool  // see [Inject]
	Quiet   bool  // see [Quiet]
	Level   Level // 0: the endpoint's default
	Token   any   // comes back in the completion; nil: that of the view
}

// RecvReq is a receive to post.
type RecvReq struct {
	// From is the only sender to receive from if Directed is set, AnyAddr all;
	// otherwise the view decides, see From.
	From     Addr
	Directed bool
	Buf      []byte
	Bufs     [][]byte // instead of Buf: filled one after the other
	Tagged   bool
	Tag      uint64
	Ignore   uint64 // bits of Tag that do not matter
	Quiet    bool
	Token    any
}

var errBothBufs = fmt.Errorf("%w: a request has Buf or Bufs, not both", ErrInvalid)

func (*SendReq) request() {}
func (*RecvReq) request() {}

// Post starts an operation and returns at once; its outcome goes to the
// endpoint's queue for it (ErrNoCQ if there is none). ErrAgain means that too
// many operations are in progress, or that the queue has no room for the
// outcome: read completions and try again.
func (e *Endpoint) Post(r Request) (OpID, error) {
	var req ope.Request
	switch r := r.(type) {
	case *SendReq:
		if err := e.sendRequest(&req, r); err != nil {
			return 0, err
		}
		return e.post(&req, e.cfg.SendQueue, e.sendTo, &e.tx)
	case *RecvReq:
		if err := e.recvRequest(&req, r); err != nil {
			return 0, err
		}
		return e.post(&req, e.cfg.RecvQueue, e.recvTo, &e.rx)
	default:
		return 0, fmt.Errorf("%w: Post takes *SendReq or *RecvReq, not %T", ErrInvalid, r)
	}
}

// PostBatch posts requests until one is refused, and returns how many were
// accepted with the error of the next. The device's doorbell rings once for those that go out together.
func (e *Endpoint) PostBatch(rs []Request) (int, error) {
	for i, r := range rs {
		if _, err := e.Post(r); err != nil {
			return i, err
		}
	}
	return len(rs), nil
}

func (e *Endpoint) post(req *ope.Request, q *Queue, to *source, c *credits) (OpID, error) {
	if q == nil {
		return 0, fmt.Errorf("%w: the endpoint has no queue for the outcome", ErrNoCQ)
	}
	if !c.try() {
		return 0, ErrAgain
	}
	quiet := req.Flags&ope.Quiet != 0
	if !quiet && !q.reserve() {
		c.release()
		return 0, ErrAgain
	}
	req.Sink = to
	req.ID = e.lastID.Add(1)
	e.own(req)
	if !e.act.Submit(req) {
		e.disown(req)
		c.release()
		if !quiet {
			q.used.Add(-1)
		}
		return 0, ErrAgain
	}
	return OpID(req.ID), nil
}

// sendRequest checks a send and makes the request for the shard.
func (e *Endpoint) sendRequest(req *ope.Request, r *SendReq) error {
	if err := e.ready(asks(CapSend, r.Tagged, false)); err != nil {
		return err
	}
	if r.Level > Injected {
		return fmt.Errorf("%w: completion level %d is not built yet", ErrNotSupported, r.Level)
	}
	if err := e.def.check(); err != nil {
		return err
	}
	if r.To >= notAvail {
		return fmt.Errorf("%w: send to no peer (handle %d)", ErrInvalid, r.To)
	}
	*req = ope.Request{
		Kind: ope.KindSend, Peer: uint64(r.To), Tag: r.Tag, Data: r.Data, Buf: r.Buf, Token: r.Token,
	}
	if req.Token == nil {
		req.Token = e.def.token
	}
	if len(r.Bufs) > 0 {
		if r.Buf != nil {
			return errBothBufs
		}
		req.Buf = gather(r.Bufs)
	}
	if r.Tagged {
		req.Flags |= ope.Tagged
	}
	switch {
	case r.HasData:
		req.Flags |= ope.HasData
	case e.def.hasData:
		req.Flags |= ope.HasData
		req.Data = e.def.data
	}
	if r.Quiet || e.def.quiet {
		req.Flags |= ope.Quiet
	}
	if r.Inject || e.def.inject {
		if limit := maxInject(e.dom.fab.dev.Info().MTU); len(req.Buf) > limit {
			return fmt.Errorf("%w: inject of %d bytes, at most %d", ErrMsgSize, len(req.Buf), limit)
		}
		req.Flags |= ope.Inject | ope.Quiet
	}
	return nil
}

// recvRequest checks a receive and makes the request for the shard.
func (e *Endpoint) recvRequest(req *ope.Request, r *RecvReq) error {
	from := r.From
	if !r.Directed {
		from = e.def.from
	}
	if err := e.ready(asks(CapRecv, r.Tagged, from != AnyAddr)); err != nil {
		return err
	}
	if err := e.def.check(); err != nil {
		return err
	}
	*req = ope.Request{
		Kind: ope.KindRecv, Peer: uint64(match.AnySource), Tag: r.Tag, Ignore: r.Ignore,
		Buf: r.Buf, Token: r.Token,
	}
	if from != AnyAddr {
		if from >= notAvail {
			return fmt.Errorf("%w: receive from no peer (handle %d)", ErrInvalid, from)
		}
		req.Peer = uint64(from)
	}
	if req.Token == nil {
		req.Token = e.def.token
	}
	if r.Tagged {
		req.Flags |= ope.Tagged
	}
	if r.Quiet || e.def.quiet {
		req.Flags |= ope.Quiet
	}
	if len(r.Bufs) > 0 {
		if r.Buf != nil {
			return errBothBufs
		}
		req.More = &ope.More{Pieces: r.Bufs}
		req.Buf = make([]byte, total(r.Bufs))
	}
	return nil
}

// live checks that the endpoint is enabled.
func (c *core) live() error {
	switch c.state.Load() {
	case disabled:
		return fmt.Errorf("%w: the endpoint is not enabled", ErrBadState)
	case closed:
		return ErrClosed
	default:
		return nil
	}
}

// ready checks that the endpoint is enabled and may do what is asked.
func (e *Endpoint) ready(want Caps) error {
	switch e.state.Load() {
	case enabled:
	case draining:
		if want&CapSend != 0 {
			return fmt.Errorf("%w: the endpoint is shutting down", ErrClosed)
		}
	default:
		return e.live()
	}
	if e.cfg.Caps == 0 {
		return nil
	}
	if lacks := want &^ e.cfg.Caps.granted(); lacks != 0 {
		return fmt.Errorf("%w: the endpoint was made with the capabilities %v, without %v", ErrNotSupported, e.cfg.Caps, lacks)
	}
	return nil
}

// Cancel asks for the end of an operation. Its outcome comes as always, with
// ErrCanceled unless it was too late. To cancel what has ended does nothing.
func (e *Endpoint) Cancel(id OpID) error {
	if err := e.live(); err != nil {
		return err
	}
	e.cancel(uint64(id))
	return nil
}

func total(bs [][]byte) int {
	n := 0
	for _, b := range bs {
		n += len(b)
	}
	return n
}

func gather(bs [][]byte) []byte {
	p := make([]byte, 0, total(bs))
	for _, b := range bs {
		p = append(p, b...)
	}
	return p
}
