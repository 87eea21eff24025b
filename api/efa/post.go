package efa

import (
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
)

// Request is what Post takes: *SendReq, *RecvReq, *WriteReq, *ReadReq or
// *AtomicReq. The struct is copied at the call and may be used again at once; the
// buffers, and the pieces of Bufs that are to be filled, are lent until the
// completion.
type Request interface {
	parent() *trace.SpanContext
}

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
	// Parent is the span that the operation is part of, if somebody looks, see
	// [Telemetry].
	Parent trace.SpanContext
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
	Parent   trace.SpanContext
}

var errBothBufs = fmt.Errorf("%w: a request has Buf or Bufs, not both", ErrInvalid)

func (r *SendReq) parent() *trace.SpanContext { return &r.Parent }
func (r *RecvReq) parent() *trace.SpanContext { return &r.Parent }

// Post starts an operation and returns at once; its outcome goes to the
// endpoint's queue for it (ErrNoCQ if there is none): RecvQueue of a receive,
// SendQueue of everything else. ErrAgain means that too many operations are in
// progress, or that the queue has no room for the outcome: read completions and
// try again.
func (e *Endpoint) Post(r Request) (OpID, error) {
	var req ope.Request
	if err := e.fill(&req, r, &e.def); err != nil {
		return 0, err
	}
	q, to := e.cfg.SendQueue, e.sendTo
	if req.Kind == ope.KindRecv {
		q, to = e.cfg.RecvQueue, e.recvTo
	}
	id, err := e.post(&req, q, to, r)
	if err != nil {
		putMore(&req)
	}
	return id, err
}

// fill checks a request and makes of it what goes to the shard, with the settings
// of a view or a call for what it does not say itself.
func (e *Endpoint) fill(req *ope.Request, r Request, s *settings) error {
	if err := s.check(); err != nil {
		return err
	}
	switch r := r.(type) {
	case *SendReq:
		return e.sendRequest(req, r, s)
	case *RecvReq:
		return e.recvRequest(req, r, s)
	case *WriteReq:
		return e.writeRequest(req, r, s)
	case *ReadReq:
		return e.readRequest(req, r, s)
	case *AtomicReq:
		return e.atomicRequest(req, r, s)
	default:
		return fmt.Errorf("%w: there is no request %T", ErrInvalid, r)
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

func (e *Endpoint) post(req *ope.Request, q *Queue, to *source, r Request) (OpID, error) {
	if q == nil {
		return 0, fmt.Errorf("%w: the endpoint has no queue for the outcome", ErrNoCQ)
	}
	c := e.credits(req)
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
	if e.tele != nil {
		e.traced(req, *r.parent())
	}
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

// credits is what bounds operations like req; nil: nothing does.
func (c *core) credits(req *ope.Request) *credits {
	switch req.Kind {
	case ope.KindPeek, ope.KindClaim:
		return nil // over as soon as it has begun
	case ope.KindRecv, ope.KindTake:
		return &c.rx
	default:
		return &c.tx
	}
}

// receives tells a receive from what begins here.
func receives(req *ope.Request) bool { return req.Kind == ope.KindRecv || req.Kind == ope.KindTake }

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
		if want&(CapSend|CapRMA|CapAtomic) != 0 {
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
