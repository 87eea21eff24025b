package efa

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// SendReq is a message to send.
type SendReq struct {
	To     Addr
	Buf    []byte
	Bufs   [][]byte // instead of Buf: at most IOVLimit pieces of one message, sent from where they lie
	Tagged bool
	Tag    uint64
	// HasData sends Data along as remote CQ data.
	HasData bool
	Data    uint64
	Inject  bool // see [Inject]
	// Quiet: report failure only (FI_SELECTIVE_COMPLETION without FI_COMPLETION). A
	// queue that nobody reads keeps the first few thousand failures of Quiet and Inject.
	Quiet bool
	Level Level
	Fence bool   // see [Fence]
	Token uint64 // comes back in the completion
	// Parent is the span that the operation is part of, if somebody looks, see
	// [Telemetry].
	Parent trace.SpanContext
}

// Send sends p to the peer and returns when it may be used again: by default
// when the peer's device has acknowledged all of it. Messages to one peer arrive
// in the order of the calls.
//
// If ctx ends first, a message of which nothing was sent is withdrawn;
// otherwise what is left of it goes out from a copy, and the error is ErrAlready, too, or, beyond
// DetachLimit, Send waits for the protocol, at most PeerTimeout.
func (e *Endpoint) Send(ctx context.Context, to Addr, p []byte, opts ...OpOption) error {
	if err := e.send(ctx, to, p, false, 0, opts); err != nil {
		return e.refused(ope.KindSend, to, err)
	}
	return nil
}

// SendTag sends p as a tagged message, see Send.
func (e *Endpoint) SendTag(ctx context.Context, to Addr, tag uint64, p []byte, opts ...OpOption) error {
	if err := e.send(ctx, to, p, true, tag, opts); err != nil {
		return e.refused(ope.KindSend, to, err)
	}
	return nil
}

// send does without a SendReq.
func (e *Endpoint) send(ctx context.Context, to Addr, p []byte, tagged bool, tag uint64, opts []OpOption) error {
	if e.state.Load() != enabled {
		if err := e.may(CapMessages); err != nil {
			return err
		}
	}
	var w wishes
	if len(opts) > 0 && !w.read(opts) {
		return w.err()
	}
	inject := len(opts) > 0 && w.has(optInject)
	if inject {
		if err := e.injectable(to, len(p)); err != nil {
			return err
		}
	} else if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	req := e.claimed()
	req.Kind, req.Flags, req.Peer, req.Tag, req.Buf = ope.KindSend, e.usual, uint64(to), tag, p
	if tagged {
		req.Flags |= ope.Tagged
	}
	if w.kinds != 0 {
		e.leaving(req, &w)
		if inject {
			return e.inject(ctx, req, w.has(optWait))
		}
	}
	return e.do(ctx, req, &e.tx, nil)
}

// PostSend starts to send a message and returns at once; its outcome goes to the
// endpoint's SendQueue (ErrNoCQ if there is none). ErrAgain means that too many
// operations are in progress, or that the queue has no room for the outcome: read
// completions and try again. It allocates nothing, and nor does &SendReq{...} as its
// argument.
func (e *Endpoint) PostSend(r *SendReq) (OpID, error) {
	if e.state.Load() != enabled || e.sendTo == nil || !e.av.table.holds(uint64(r.To)) {
		if err := e.unsendable(r); err != nil {
			return 0, e.refused(ope.KindSend, r.To, err)
		}
	}
	quiet := r.Quiet || r.Inject
	req := e.room(e.sendTo, &e.tx, quiet)
	if req == nil {
		return 0, errsAgain[ope.KindSend]
	}
	if err := e.fillSend(req, r); err != nil {
		e.giveUp(req, e.sendTo, &e.tx, quiet)
		return 0, e.refused(ope.KindSend, r.To, err)
	}
	return e.hand(req, e.sendTo, &r.Parent)
}

// unsendable says why PostSend refuses a message before there is a request, if it does.
func (e *Endpoint) unsendable(r *SendReq) error {
	if err := e.may(CapMessages); err != nil {
		return err
	}
	if e.sendTo == nil {
		return errNoQueue
	}
	if !e.av.table.holds(uint64(r.To)) {
		return errNoPeer(r.To)
	}
	return nil // it was enabled meanwhile
}

// PostSends posts messages in their order until one is refused, and returns how many
// were accepted, with the error of the next; see PostSend. The shard is woken once for
// all of them, and the device's doorbell rings once for those that go out together: up to 64.
func (e *Endpoint) PostSends(rs []SendReq) (int, error) {
	b := batch{e: e, to: e.sendTo, places: &e.tx}
	for i := range rs {
		r := &rs[i]
		if !b.begin(len(rs)-i) || !b.made(e.sendRequest(&b.req, r)) || !b.push(&r.Parent) {
			break
		}
	}
	return b.end()
}

func (r *SendReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	return &r.Parent, e.sendRequest(req, r)
}

func (r *SendReq) target() (ope.Kind, Addr) { return ope.KindSend, r.To }

// sendRequest checks a send and makes the request for the shard of req, which is zero.
func (e *Endpoint) sendRequest(req *ope.Request, r *SendReq) error {
	if e.state.Load() != enabled {
		if err := e.may(CapMessages); err != nil {
			return err
		}
	}
	return e.fillSend(req, r)
}

// fillSend makes the request of a send, of one that is zero but for its ID.
func (e *Endpoint) fillSend(req *ope.Request, r *SendReq) error {
	f := e.usual
	if r.Level != 0 || r.Inject || r.Quiet || r.Fence {
		if err := r.Level.check(); err != nil {
			return err
		}
		f = e.flags(r.Level, r.Inject, r.Quiet)
		if r.Fence {
			f |= ope.Fence
		}
	}
	if r.Tagged {
		f |= ope.Tagged
	}
	if r.HasData {
		f |= ope.HasData
		req.Data = r.Data
	}
	req.Kind, req.Flags, req.Peer, req.Tag = ope.KindSend, f, uint64(r.To), r.Tag
	req.Buf, req.Token = r.Buf, r.Token
	if r.Bufs != nil || r.Inject {
		return e.outgoing(req, r.Bufs)
	}
	return nil
}

// withData gives a request remote CQ data.
func withData(req *ope.Request, has bool, data uint64) {
	if has {
		req.Flags |= ope.HasData
		req.Data = data
	}
}

// outgoing checks the buffer, or the pieces, of what is to leave.
func (e *Endpoint) outgoing(req *ope.Request, pieces [][]byte) error {
	if len(pieces) > 0 {
		if err := pieced(req, pieces); err != nil {
			return err
		}
		if e.cfg.Direct {
			gathered(req)
		}
	}
	if req.Flags&ope.Inject != 0 {
		if n := req.Len(); n > e.mostInject {
			req.PutIOV()
			return tooLongToInject(n, e.mostInject)
		}
	}
	return nil
}

// flags are those of a request with the given wishes.
func (e *Endpoint) flags(level Level, inject, quiet bool) ope.Flags {
	if level == 0 {
		level = e.cfg.Level
	}
	var f ope.Flags
	if e.cfg.Order != 0 {
		f = ope.Ordered
	}
	if level >= Delivered {
		f |= ope.Deliver
	}
	if quiet {
		f |= ope.Quiet
	}
	if inject {
		f |= ope.Inject | ope.Quiet
		f &^= ope.Deliver
	}
	return f
}

// leaving gives a request, which has the flags of one without options, what the options of a
// message ask for.
func (e *Endpoint) leaving(req *ope.Request, w *wishes) {
	req.Token, req.Data = w.values[optToken], w.values[optData]
	switch w.level() {
	case Transmitted:
		req.Flags &^= ope.Deliver
	case Delivered:
		req.Flags |= ope.Deliver
	}
	if w.has(optInject) {
		req.Flags = req.Flags&^ope.Deliver | ope.Inject | ope.Quiet
	}
	if w.has(optData) {
		req.Flags |= ope.HasData
	}
	fenced(req, w.has(optFence))
}

// injectable checks a message of n bytes that is to be injected.
func (e *Endpoint) injectable(to Addr, n int) error {
	if n > e.mostInject {
		return tooLongToInject(n, e.mostInject)
	}
	if !e.av.table.holds(uint64(to)) {
		return errNoPeer(to)
	}
	return nil
}

// inject hands a request over whose buffer is the caller's again when the call returns. Its peer
// is in the address vector.
func (e *Endpoint) inject(ctx context.Context, req *ope.Request, handOver bool) error {
	if !e.tx.takeOne() && !e.tx.take(1, false) {
		var err error
		if req, err = e.wait(ctx, req, &e.tx); err != nil {
			return err
		}
	}
	if e.tele != nil {
		e.traced(req, trace.SpanContextFromContext(ctx))
	}
	req.Sink = e.injectTo
	if act := e.act.Load(); act.Claimed(req) {
		req.Flags |= ope.Borrowed
		if req = act.Begin(); req == nil {
			if e.tx.used.Load() >= fewInjected {
				e.sh.Drive()
			}
			return nil
		}
		req.Flags &^= ope.Borrowed
	}
	own(req)
	e.submit(req)
	if handOver {
		e.handedOver()
	} else {
		e.sh.Drive()
	}
	return nil
}

// handedOver waits until the device has what was submitted before. A turn gives it to the device after it
// has taken it from the ring, perhaps at its end, which it has come to when the shard has no owner, or when another one
// begins.
func (e *Endpoint) handedOver() {
	for range 2 {
		var taken shard.Signal
		e.control(taken.Set)
		if e.sh.Wait(context.Background(), &taken) != nil {
			return // it was closed, and no device will get it
		}
		if e.sh.Claim() {
			e.sh.Release()
			return
		}
	}
}

// fewInjected is how many injected operations may be in progress before the goroutine
// that injects looks after them.
const fewInjected = 8

// injected is the sink of what was injected: nobody waits for them, so a failure
// goes to the send queue if there is one, and is counted in any case.
type injected struct{ ep *Endpoint }

// Done implements ope.Sink, on the shard.
func (s injected) Done(q *ope.Request, r *ope.Result) {
	if to := s.ep.sendTo; to != nil {
		to.Done(q, r)
		return
	}
	if !s.ep.onlyPlace(q) {
		s.ep.finished(q, r)
	}
	if r.Err != nil {
		s.ep.log.Warn("injected operation failed", "op", opName(q.Kind), "peer", q.Peer, "name", s.ep.av.Name(Addr(q.Peer)), "err", r.Err)
	}
}

// injectMost is the most that is injected on any device.
const injectMost = 4096

// maxInject is libfabric's limit: a packet less the largest header, and no more
// than injectMost.
func maxInject(mtu int) int { return max(min(mtu-168, injectMost), 0) }

func tooLongToInject(n, most int) error {
	return fmt.Errorf("%w: inject of %d bytes, at most %d", ErrMsgSize, n, most)
}

// copies are the buffers of injected messages.
var copies = sync.Pool{New: func() any { return new([injectMost]byte) }}

// own gives an injected message a copy of its bytes.
func own(req *ope.Request) {
	if n := req.Len(); req.Flags&(ope.Inject|ope.Borrowed) == ope.Inject && n > 0 {
		b := copies.Get().(*[injectMost]byte)
		req.Gather(b[:n])
		req.Buf, req.Flags = b[:n], req.Flags&^ope.HasIOV
		req.PutIOV()
	}
}

// disown frees the copy of a message that nobody will touch again.
func disown(req *ope.Request) {
	if req.Flags&(ope.Inject|ope.Borrowed) == ope.Inject && len(req.Buf) > 0 {
		copies.Put((*[injectMost]byte)(req.Buf[:injectMost]))
	}
}

// Reply sends p to the sender of a message that this endpoint has received, as Send does, or, if
// the message was tagged, as SendTag does with its tag. Every sender can be answered,
// on every device and whether or not it is in the address vector, see [Endpoint.Sender].
//
// If the sender has closed its endpoint, or another has taken its place since, p goes to nobody, and
// the error is [ErrPeerFailed]; ErrNotConnected, if the message's From means another peer by now.
func (e *Endpoint) Reply(ctx context.Context, m Message, p []byte, opts ...OpOption) error {
	to, fresh, err := e.sender(m)
	if err != nil {
		return callError("reply", err)
	}
	if err = e.refused(ope.KindSend, to, e.send(ctx, to, p, m.Tagged, m.Tag, opts)); err != nil && fresh && errors.Is(err, ErrPeerFailed) {
		_ = e.cfg.AV.Remove(ctx, to) // it was put there for this; the error to tell is err
	}
	return err
}

// Sender is the handle of the sender of a message that this endpoint has received, for all
// that Reply does not do: a [SendReq] with To, [Endpoint.Memory], Remove.
//
// A sender that is in no address vector is inserted, and is known by the handle from then on,
// until Remove; a program with ever new clients removes those whose PeerClosed or PeerFailed has come.
//
// ErrNotConnected: the handle was removed, and is another peer's now. ErrInvalid: the message
// has no sender, since it was sent or is made up. ErrAddrNotAvail: the vector takes no such peers.
func (e *Endpoint) Sender(m Message) (Addr, error) {
	to, _, err := e.sender(m)
	if err != nil {
		return NoAddr, callError("sender", err)
	}
	return to, nil
}

// IsSender reports whether a message came from the endpoint at an address by the path that Insert
// would choose for it. An address that somebody states may name paths of others as well, and what is
// sent to it takes the first: so this is the check of an address that a message states. It
// inserts nothing.
func (e *Endpoint) IsSender(m Message, a Address) bool {
	raw, _, err := e.dom.fab.choose(a, &e.cfg.AV.cfg)
	return err == nil && raw == m.Raw()
}

// sender reports, too, whether the handle is a new one.
func (e *Endpoint) sender(m Message) (to Addr, fresh bool, err error) {
	raw := m.Raw()
	switch {
	case raw == (RawAddr{}):
		return NoAddr, false, fmt.Errorf("%w: the message does not say who sent it", ErrInvalid)
	case raw.ConnID() == 0:
		return NoAddr, false, fmt.Errorf("%w: %s sends without headers, and has not said its connid", ErrNotConnected, raw)
	}
	av := e.cfg.AV
	if x := av.table.get(uint64(m.From)); x.age != 0 && x.raw == raw {
		return m.From, false, nil
	}
	// It was a stranger when the message came, or has another handle now.
	if to, fresh, err = av.meet(raw, m.From >= NoAddr); err != nil {
		err = fmt.Errorf("%s, peer %d: %w", raw, m.From, err)
	}
	return to, fresh, err
}
