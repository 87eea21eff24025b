package efa

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// inbox receives messages of any size into buffers of its own. It owns the buffers, how many
// bytes of them are lent, and the messages that were taken for calls whose context ended.
type inbox struct {
	of   *Endpoint
	mtu  int
	mem  budget
	free [leaseClasses]sync.Pool

	mu    sync.Mutex
	left  []*taking // oldest first
	kept  atomic.Int32
	round atomic.Uint64 // counts those that were left
}

const defaultNextMemory = 256 << 20

func (b *inbox) init(e *Endpoint) {
	b.of, b.mtu, b.mem.max = e, e.dom.fab.dev.Info().MTU, int64(e.cfg.NextMemory)
	if b.mem.max == 0 {
		b.mem.max = defaultNextMemory
	}
}

// TooLongError is the error of Next for a message that is longer than EndpointConfig's
// NextMemory. The message is taken out of matching, and waits in Claimed to be received into
// memory of the caller's, or discarded; one of the two must be done.
type TooLongError struct {
	Claimed *Claimed
	Most    int // NextMemory
}

// Error gives both lengths.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("efa: recv: a message of %d bytes for Next, which lends %d", e.Claimed.Message.N, e.Most)
}

// Unwrap is ErrMsgSize.
func (e *TooLongError) Unwrap() error { return ErrMsgSize }

// Next receives the next untagged message, whatever its size, into a buffer of the endpoint's,
// which the caller gives back by [Delivery.Release]. [From] is obeyed.
//
// At most EndpointConfig.NextMemory bytes are lent at a time, for a message at least an MTU,
// plus an MTU for each call that waits; when they are used up Next waits for a Release, and
// messages stay with the endpoint as those do that nobody receives, or with their senders. A
// longer message than that is a [TooLongError].
//
// If ctx ends first, no message is lost: what the call had taken is for another one. An error
// of a message (its peer failed, TooLongError) is of that message alone. Any number of
// goroutines may call it; what one call after the other gets from a peer is in the order of
// the sends. It allocates nothing for messages of up to a packet.
func (e *Endpoint) Next(ctx context.Context, opts ...OpOption) (Delivery, error) {
	d, _, err := e.inbox.next(ctx, Match{}, false, opts)
	return d, e.refused(ope.KindRecv, NoAddr, err)
}

// NextTag is Next for the tagged messages that m takes.
func (e *Endpoint) NextTag(ctx context.Context, m Match, opts ...OpOption) (Delivery, error) {
	d, _, err := e.inbox.next(ctx, m, true, opts)
	return d, e.refused(ope.KindRecv, NoAddr, err)
}

// Messages calls Next again and again. Each message is released at the next step of the loop,
// and at its end, unless [Delivery.Keep] was called. After the error of a single message the
// loop may go on; an error that concerns all, as ErrClosed or that of ctx, is the last.
func (e *Endpoint) Messages(ctx context.Context, opts ...OpOption) iter.Seq2[Delivery, error] {
	return e.inbox.each(ctx, Match{}, false, opts)
}

// MessagesTag is Messages for the tagged messages that m takes.
func (e *Endpoint) MessagesTag(ctx context.Context, m Match, opts ...OpOption) iter.Seq2[Delivery, error] {
	return e.inbox.each(ctx, m, true, opts)
}

func (b *inbox) each(ctx context.Context, m Match, tagged bool, opts []OpOption) iter.Seq2[Delivery, error] {
	step := func(yield func(Delivery, error) bool) bool {
		d, alone, err := b.next(ctx, m, tagged, opts)
		if err != nil {
			return yield(Delivery{}, b.of.refused(ope.KindRecv, NoAddr, err)) && alone
		}
		defer d.unlessKept()
		return yield(d, nil)
	}
	return func(yield func(Delivery, error) bool) {
		for step(yield) {
		}
	}
}

// next receives a message. alone: the error is of one message.
func (b *inbox) next(ctx context.Context, m Match, tagged bool, opts []OpOption) (d Delivery, alone bool, err error) {
	var w wishes
	if !w.read(opts) {
		return d, false, w.err()
	}
	e := b.of
	if e.cfg.Direct || e.cfg.ZeroCopyRecv {
		return d, false, fmt.Errorf("%w: Next on an endpoint with Direct or ZeroCopyRecv", ErrNotSupported)
	}
	var req ope.Request
	if err := e.receiving(&req, w.from(), nil, tagged, m); err != nil {
		return d, false, err
	}
	req.Flags |= ope.Sized
	want := wanted{m, tagged, w.from()}
	for {
		req.Data = b.round.Load() // before it looks: for what is left later the receive is recalled
		if t := b.resume(&want, false); t != nil {
			return b.finish(ctx, t, &want)
		}
		if err := b.mem.wait(ctx, e.sh, 0, func() bool { return b.has(&want, false) }); err != nil {
			if errors.Is(err, errInstead) {
				continue
			}
			return d, false, err
		}
		l := b.lend(b.classOf(b.mtu))
		req.Buf = l.buf
		act := e.act.Load() // before the claim, which it has
		var msg Message
		err := e.made(ctx, &req, &e.rx, &msg)
		if err == nil && msg.N >= 0 {
			b.mem.used.Add(l.cost)
			return l.deliver(msg), false, nil
		}
		if !errors.Is(err, ErrClosed) { // else perhaps nobody has closed the shard, which has it
			b.unused(l)
		}
		if err != nil {
			return d, false, err
		}
		if msg.N != ope.Recalled {
			msg.N = ^msg.N
			return b.finish(ctx, &taking{to: b, act: act, id: req.ID, msg: msg}, &want)
		}
	}
}

func (l *lease) deliver(m Message) Delivery {
	return Delivery{Message: m, Body: l.buf[:m.N:m.N], from: l, use: l.state.Load()}
}

// taking is a message that does not come in one packet, on its way into a buffer of its size.
type taking struct {
	to    *inbox
	act   *endpoint.Endpoint // that has the claim
	id    uint64             // of the claim
	msg   Message            // as Peek has it
	lease *lease             // nil: it is not being received yet
	sig   shard.Signal
	err   error
}

// Done implements ope.Sink, on the shard.
func (t *taking) Done(q *ope.Request, r *ope.Result) {
	t.to.of.finished(q, r)
	if r.Err != nil {
		t.err = t.to.of.opError(q, r)
	}
	t.sig.Set()
}

// finish receives a message that was claimed. If ctx ends first it is kept for another call.
func (b *inbox) finish(ctx context.Context, t *taking, w *wanted) (d Delivery, alone bool, err error) {
	e := b.of
	for t.lease == nil {
		if int64(t.msg.N) > b.mem.max {
			return d, true, &TooLongError{Claimed: &Claimed{Message: t.msg, e: e, id: t.id}, Most: int(b.mem.max)}
		}
		if t.act != e.act.Load() {
			return d, true, fmt.Errorf("%w: the endpoint has failed since the message came", ErrIO)
		}
		switch err := b.receive(ctx, t, w); {
		case errors.Is(err, errInstead): // one that has memory, which t may be waiting for
			if other := b.resume(w, true); other != nil {
				b.leave(t)
				t = other
			}
		case err != nil:
			b.leave(t)
			return d, false, err
		}
	}
	if err := e.sh.Wait(ctx, &t.sig); err != nil && !t.sig.IsSet() {
		b.leave(t)
		return d, false, contextError(ctx, err)
	}
	if t.err != nil {
		t.lease.back()
		return d, !errors.Is(t.err, ErrClosed), t.err
	}
	return t.lease.deliver(t.msg), false, nil
}

// receive begins to receive a message as soon as there is memory for it. The error is errInstead if
// w takes a message that was left and has memory.
func (b *inbox) receive(ctx context.Context, t *taking, w *wanted) error {
	e := b.of
	class, size := b.classOf(t.msg.N)
	if int64(size) > b.mem.max {
		class, size = -1, t.msg.N
	}
	if err := b.mem.wait(ctx, e.sh, int64(size), func() bool { return b.has(w, true) }); err != nil {
		return err
	}
	if e.rx.take(1, false) == 0 {
		if err := e.rx.wait(ctx, e.sh); err != nil {
			b.mem.give(int64(size))
			return err
		}
	}
	t.lease = b.lend(class, size)
	req := ope.Request{Kind: ope.KindTake, Peer: uint64(AnyAddr), Data: t.id, Buf: t.lease.buf[:t.msg.N]}
	if t.msg.Tagged {
		req.Flags = ope.Tagged
	}
	e.accept(&req, t)
	e.submit(&req)
	return nil
}
