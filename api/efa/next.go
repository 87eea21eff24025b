package efa

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// Delivery is a message of any size, in a buffer that the endpoint has lent the caller.
type Delivery struct {
	Message
	Body []byte // all of it, to be read and written until Release

	from *lease
	use  uint64
}

// Release gives the buffer back: Body must not be touched any more. A second call does
// nothing. Any goroutine may call it, also after Close.
func (d Delivery) Release() {
	if d.from != nil && (d.from.state.CompareAndSwap(d.use, d.use+nextLease) ||
		d.from.state.CompareAndSwap(d.use|keptLease, d.use+nextLease)) {
		d.from.back()
	}
}

// Keep has a message of [Endpoint.Messages] outlive the step of its loop: the caller is to
// Release it.
func (d Delivery) Keep() {
	if d.from != nil {
		d.from.state.CompareAndSwap(d.use, d.use|keptLease)
	}
}

// unlessKept is Release, but for what Keep was called of.
func (d Delivery) unlessKept() {
	if d.from.state.CompareAndSwap(d.use, d.use+nextLease) {
		d.from.back()
	}
}

// TooLongError is the error of Next for a message that is longer than EndpointConfig's
// NextMemory, and that of PacketReq. The message is taken out of matching, and waits in Claimed to be received into
// memory of the caller's, or discarded; one of the two must be done.
type TooLongError struct {
	Claimed *Claimed
	Most    int // NextMemory, with OnePacket what a packet has at most, or the length of PacketReq's Buf
}

// Error gives both lengths.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("efa: recv: a message of %d bytes, or of several packets, where %d bytes are taken", e.Claimed.Message.N, e.Most)
}

// Unwrap is ErrMsgSize.
func (e *TooLongError) Unwrap() error { return ErrMsgSize }

// PacketReq is a [RecvReq] for Start that takes a message only if all of it is here with the first
// packet, and Buf has the room: so a sender that begins a long message and does not go on holds up
// nothing. For another one Op.Wait returns a [TooLongError] at once. Bufs and Multi are ErrInvalid.
type PacketReq RecvReq

func (r *PacketReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	switch {
	case r.Bufs != nil || r.Multi:
		return nil, fmt.Errorf("%w: a PacketReq has one buffer, for one message", ErrInvalid)
	case e.cfg.Direct:
		return nil, fmt.Errorf("%w: a PacketReq on an endpoint with Direct", ErrNotSupported)
	}
	err := e.recvRequest(req, (*RecvReq)(r))
	req.Flags |= ope.Sized
	req.Data = math.MaxUint64 // it is never recalled
	return &r.Parent, err
}

func (r *PacketReq) target() (ope.Kind, Addr) { return ope.KindRecv, NoAddr }

// sized gives the Op of a PacketReq its outcome if the message was claimed.
func (o *opSink) sized(q *ope.Request) {
	if q.Flags&ope.Sized == 0 || o.res.Err != nil || o.res.N >= 0 {
		return
	}
	o.res.N = ^o.res.N
	o.res.Err = &TooLongError{Claimed: &Claimed{Message: o.res.Message, e: o.ep, id: q.ID}, Most: len(q.Buf)}
}

// inbox receives messages of any size into buffers of its own. It owns the buffers, how many
// bytes of them are lent, and the messages that were taken for calls whose context ended.
type inbox struct {
	of   *Endpoint
	mtu  int
	mem  semaphore
	free [leaseClasses]sync.Pool

	mu    sync.Mutex
	left  []*taking // oldest first
	kept  atomic.Int32
	round atomic.Uint64 // counts those that were left
}

const defaultNextMemory = 256 << 20

func (b *inbox) init(e *Endpoint) {
	b.of, b.mtu = e, e.dom.fab.dev.Info().MTU
	b.mem.init(e.cfg.NextMemory, defaultNextMemory)
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
	if e.cfg.Direct {
		return d, false, fmt.Errorf("%w: Next on an endpoint with Direct", ErrNotSupported)
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
			if w.has(optOnePacket) {
				return d, true, &TooLongError{Claimed: &Claimed{Message: msg, e: e, id: req.ID}, Most: b.mtu}
			}
			return b.finish(ctx, &taking{to: b, act: act, id: req.ID, msg: msg}, &want)
		}
	}
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
	if err := e.rx.wait(ctx, e.sh, 1, nil); err != nil {
		b.mem.settle(-int64(size))
		return err
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

// wanted is which messages a call of Next takes.
type wanted struct {
	Match
	tagged bool
	from   Addr
}

func (w *wanted) takes(m *Message) bool {
	return m.Tagged == w.tagged && (!w.tagged || (m.Tag^w.Tag)&^w.Ignore == 0) && (w.from == AnyAddr || w.from == m.From)
}

// leave keeps a message for another call, also for one that waits.
func (b *inbox) leave(t *taking) {
	b.mu.Lock()
	if b.lost(t) {
		b.mu.Unlock()
		return
	}
	b.left = append(b.left, t)
	b.kept.Add(1)
	b.mu.Unlock()
	round := b.round.Add(1)
	b.mem.wakeAll()
	if e := b.of; e.state.Load() != closed {
		e.control(func() { e.act.Load().Recall(round) })
	}
}

// find returns where in left the oldest message is that w takes, -1 if there is none. held: it has
// memory already.
func (b *inbox) find(w *wanted, held bool) int {
	return slices.IndexFunc(b.left, func(t *taking) bool { return w.takes(&t.msg) && (!held || t.lease != nil) })
}

// has reports whether resume would find a message.
func (b *inbox) has(w *wanted, held bool) bool {
	if b.kept.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.find(w, held) >= 0
}

// resume takes the oldest message of those that were left which w takes.
func (b *inbox) resume(w *wanted, held bool) *taking {
	if b.kept.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.find(w, held)
	if i < 0 {
		return nil
	}
	t := b.left[i]
	b.left = slices.Delete(b.left, i, i+1)
	b.kept.Add(-1)
	return t
}

// renew forgets what was left of the endpoint that has failed, but not messages that have arrived.
func (b *inbox) renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = slices.DeleteFunc(b.left, b.lost)
	b.kept.Store(int32(len(b.left)))
}

// lost reports whether a message went with the endpoint that had it, and gives its memory back.
func (b *inbox) lost(t *taking) bool {
	switch {
	case t.act == b.of.act.Load():
		return false
	case t.lease == nil:
		return true
	case !t.sig.IsSet() || t.err == nil:
		return false
	}
	t.lease.back()
	return true
}

// lease is a buffer that is lent again and again. Its state says how often, and whether the
// present message is kept.
type lease struct {
	to    *inbox
	buf   []byte
	class int // of buffers that are used again; else -1
	cost  int64
	state atomic.Uint64
}

func (l *lease) deliver(m Message) Delivery {
	return Delivery{Message: m, Body: l.buf[:m.N:m.N], from: l, use: l.state.Load()}
}

const (
	keptLease = 1
	nextLease = 2
)

// Buffers of up to 1 MiB are used again, the smallest of which have the device's MTU.
const (
	leaseShift   = 16 // buffers of the next class, in powers of two
	leaseClasses = 6
)

// classOf is the class of buffers for n bytes, and how many they have.
func (b *inbox) classOf(n int) (class, size int) {
	if n <= b.mtu {
		return 0, b.mtu
	}
	c := max(bits.Len(uint(n-1)), leaseShift) - leaseShift + 1
	if c >= leaseClasses {
		return -1, n
	}
	return c, 1 << (c - 1 + leaseShift)
}

// lend gets a buffer of a class, or of size bytes.
func (b *inbox) lend(class, size int) *lease {
	if class >= 0 {
		if l, _ := b.free[class].Get().(*lease); l != nil {
			return l
		}
	}
	return &lease{to: b, buf: make([]byte, size), class: class, cost: int64(size)}
}

// back takes the buffer back that a message was in.
func (l *lease) back() {
	b, cost := l.to, l.cost
	b.unused(l)
	b.mem.settle(-cost)
}

// unused takes a buffer back that counts for nothing.
func (b *inbox) unused(l *lease) {
	if l.class >= 0 {
		b.free[l.class].Put(l)
	} else {
		l.buf = nil
	}
}
