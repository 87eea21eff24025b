package efanet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/efactor/efactor/api/efa"
)

// reader is the half of a connection that receives. Calls of Read have it one at a time, under mu;
// after the end of reading they touch nothing, and the goroutine that takes what still comes has
// it.
type reader struct {
	limit

	mu      sync.Mutex
	c       *Conn
	err     error        // what each Read returns once rest is empty: io.EOF after FIN
	rest    []byte       // received, and not read yet
	held    efa.Delivery // has rest, if it is a DATA frame
	charge  int          // what the frame of rest costs
	joined  []byte       // received behind rest, see join; each byte costs as much credit
	bytes   bool         // rest was joined
	pressed atomic.Bool  // a goroutine is about to join
	pos     uint64       // how many bytes of the stream have come
	owed    int          // credit to give back
	due     int          // so much of it is given back at once
	offered int          // bytes of an OFFER that have not come yet
	seq     uint16       // of that OFFER
	granted int          // bytes of it that are under way
	bulk    *fetched     // takes them, if a call has left them
	stopped bool         // STOP was sent
	hold    *hold        // ends what cannot be taken up again; nil: nothing has had to yet
}

// fetched is granted bytes that nobody waits for in Read.
type fetched struct {
	done chan struct{}
	b    []byte
	err  error
}

// read is Read, without the error's form.
func (r *reader) read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := r.limit.err(); err != nil && !errors.Is(err, errMoved) {
			return 0, err
		}
		if len(p) == 0 {
			return 0, nil
		}
		if r.refill(); len(r.rest) > 0 {
			return r.take(p), nil
		}
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.more(r.ctx(), p)
		switch {
		case errors.Is(err, errMoved):
		case err != nil:
			return 0, err
		case n > 0:
			return n, nil
		}
	}
}

// refill has what was joined follow rest.
func (r *reader) refill() {
	if len(r.rest) == 0 && len(r.joined) > 0 {
		r.rest, r.bytes, r.joined = r.joined, true, nil
	}
}

// take copies from rest, and gives its frame back when that is empty.
func (r *reader) take(p []byte) int {
	n := copy(p, r.rest)
	if r.bytes {
		r.consumed(n)
	}
	if r.rest = r.rest[n:]; len(r.rest) > 0 {
		return n
	}
	r.rest, r.bytes = nil, false
	r.held.Release()
	r.held = efa.Delivery{}
	r.consumed(r.charge)
	r.charge = 0
	return n
}

// consumed gives credit back, in few frames.
func (r *reader) consumed(charge int) {
	if r.owed += charge; r.owed >= r.due {
		r.giveBack(context.Background())
	}
}

// giveBack gives all credit back. What could not be sent before ctx ended is owed on.
func (r *reader) giveBack(ctx context.Context) {
	if r.owed > 0 && !r.stopped && r.tell(ctx, kindCredit, uint64(r.owed)) == nil {
		r.owed, r.due = 0, window/4
	}
}

// repay gives credit back just before a frame to the other side, if a good deal is owed: both come together,
// and the credit wakes nobody. What comes for a program that answers may be owed until its answer. If a
// call of Read has the reader, it does all that itself. It waits no longer than the call that is about to write.
func (r *reader) repay(ctx context.Context) {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	if r.limit.over() {
		return // what comes now is drained, without the lock
	}
	if r.owed >= window/4 {
		r.giveBack(ctx)
	}
	if r.due == window/4 {
		r.due = mostOwed
	}
}

// tell sends a frame to the other side's writer. An error is the end of ctx, or one of the peer, which the next frame will
// show as well.
func (r *reader) tell(ctx context.Context, k kind, value uint64) error {
	return r.c.send(ctx, laneBack, k, value, nil)
}

// more waits for one frame: n bytes of it are in p, or what came is in rest, err and so on.
func (r *reader) more(ctx context.Context, p []byte) (n int, err error) {
	switch {
	case r.bulk != nil:
		return 0, r.await(ctx)
	case r.offered > 0:
		return r.transfer(ctx, p)
	}
	d, err := r.c.next(ctx, laneStream)
	if err != nil {
		return 0, r.keep(ctx, err)
	}
	f, err := r.parse(&d.Message)
	if err == nil && f.kind == kindData {
		r.rest, r.held, r.charge = d.Body, d, cost(f.n)
		r.pos += uint64(f.n)
		return r.take(p), nil
	}
	d.Release()
	return 0, r.heed(f, err)
}

// parse is parse of a frame on the stream, at the place where the reader is.
func (r *reader) parse(m *efa.Message) (frame, error) {
	f, err := parse(laneStream, m)
	if err == nil && (f.kind == kindData || f.kind == kindFin) && f.value != r.pos&maxValue {
		err = violation("a frame of kind %d behind byte %d after byte %d", f.kind, f.value, r.pos)
	}
	return f, err
}

// heed does what a frame without data says.
func (r *reader) heed(f frame, err error) error {
	switch {
	case err != nil:
		return r.c.broken(&r.err, err)
	case f.kind == kindOffer:
		r.offered, r.seq = f.size(), f.seq()
		r.consumed(cost(0))
	case f.kind == kindFin:
		r.err = io.EOF
		r.stop()
	default:
		r.err = syscall.ECONNRESET
		r.stop()
		r.c.out.end(r.err)
	}
	return nil
}

// press has what has come joined as soon as no call of Read is waiting for it. If that gives nothing
// back, which the writer waits for, the next that is read does, as soon as it is a frame's.
func (r *reader) press() {
	if r.pressed.Swap(true) {
		return
	}
	go func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pressed.Store(false)
		if !r.limit.over() {
			r.join()
			if r.owed == 0 {
				r.due = cost(maxFrame)
			}
			r.giveBack(context.Background())
		}
	}()
}

// join moves short frames that nobody has read from the endpoint, where each takes up a packet, to
// memory of the connection's, and gives back what that saves. So many small writes take as much
// credit as they have bytes.
func (r *reader) join() {
	r.hold = r.begin(r.ctx(), r.c.hub.ctx, r.hold) // which ends nothing but this: a frame comes whole, or stays
	defer r.letGo(r.hold)
	ctx := r.hold.ctx
	for r.err == nil && r.bulk == nil && r.offered == 0 && len(r.joined) < window {
		if _, err := r.c.hub.ep.PeekTag(ctx, laneStream.match(r.c.id), r.c.from...); err != nil {
			return // there is none, or Read will have the error
		}
		d, err := r.c.next(ctx, laneStream) // at once, unless nothing more is lent
		if err != nil {
			_ = r.keep(ctx, err) // the error is Read's
			return
		}
		f, err := r.parse(&d.Message)
		if err == nil && f.kind == kindData {
			r.joined = append(r.joined, d.Body...)
			r.pos += uint64(f.n)
			r.owed += cost(f.n) - f.n
		}
		d.Release()
		if err != nil || f.kind != kindData {
			_ = r.heed(f, err)
			return
		}
	}
}

// keep returns an error, and has later calls return it as well unless it is one of ctx.
func (r *reader) keep(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.c.broken(&r.err, err)
}

// stop lets the other side's writer know that nothing is read any more.
func (r *reader) stop() {
	if !r.stopped {
		r.stopped = true
		_ = r.tell(context.Background(), kindStop, 0) // the next frame will show an error
	}
}

// transfer has the other side send bytes of its offer, into p if they fit. Once they were
// granted they are received in any case, so that the writer never waits for longer than the
// transfer takes. After STOP the writer withdraws the offer by itself, and a GRANT would come
// to nobody.
func (r *reader) transfer(ctx context.Context, p []byte) (int, error) {
	if r.granted == 0 && !r.stopped {
		r.granted = min(r.offered, max(len(p), minBulk), maxGrant)
		if err := r.c.send(ctx, laneBack, kindGrant, sized(r.seq, r.granted), nil); err != nil {
			r.granted = 0
			return 0, r.keep(ctx, err)
		}
	}
	cl, f, err := r.claim(ctx)
	_, limited := ctx.Deadline()
	switch {
	case err == nil && (limited || len(p) < f.n):
		r.fetch(func() ([]byte, error) { return r.receive(r.c.hub.ctx, r.c.life, cl, make([]byte, f.n)) })
		return 0, r.await(ctx)
	case err == nil:
		b, err := r.direct(ctx, cl, p[:f.n])
		if err != nil {
			return 0, err
		}
		return r.place(p, b), nil
	case ctx.Err() == nil || errors.Is(err, errFrame):
		return 0, r.c.broken(&r.err, err)
	}
	r.fetch(func() ([]byte, error) {
		cl, f, err := r.claim(r.c.life)
		if err != nil {
			return nil, err
		}
		return r.receive(r.c.hub.ctx, r.c.life, cl, make([]byte, f.n))
	})
	return 0, context.Cause(ctx)
}

// fetch has a goroutine take what was granted: calls wait for it by await, as long as they like to.
func (r *reader) fetch(take func() ([]byte, error)) {
	f := &fetched{done: make(chan struct{})}
	r.bulk = f
	go func() {
		f.b, f.err = take()
		close(f.done)
	}()
}

// direct receives what was granted into a caller's memory, which it must not be put into after the call. So
// the connection ends if the other side, which has begun to send it, stands still beyond a deadline
// that was set since the call began to wait with ctx.
func (r *reader) direct(ctx context.Context, cl *efa.Claimed, p []byte) ([]byte, error) {
	r.hold = r.begin(ctx, r.c.hub.ctx, r.hold)
	defer r.letGo(r.hold)
	ctx = r.hold.ctx
	b, err := r.receive(ctx, ctx, cl, p)
	if err == nil {
		return b, nil
	}
	why := context.Cause(ctx)
	if ctx.Err() == nil || r.c.hub.ctx.Err() != nil {
		return nil, r.c.broken(&r.err, err)
	}
	if !r.limit.over() {
		_ = r.c.broken(&r.err, violation("what was granted does not come: %v", why))
		return nil, why
	}
	r.offered -= len(p) // the endpoint takes it and throws it away
	r.pos += uint64(len(p))
	r.granted = 0
	return nil, why
}

// receive receives what was granted into p. If the other side has given it up on the way, it withdraws its
// offer next, for which receive waits as long as word says.
func (r *reader) receive(ctx, word context.Context, cl *efa.Claimed, p []byte) ([]byte, error) {
	_, err := cl.Recv(ctx, p[:cl.Message.N])
	if !errors.Is(err, efa.ErrPeerAborted) {
		return p[:cl.Message.N:cl.Message.N], err
	}
	next, f, err := r.claim(word)
	if err != nil {
		return nil, err
	}
	if f.kind != kindWithdraw {
		r.c.peer.bin.put(r.c.hub, next)
		return nil, violation("%d bytes in place of those that were given up", f.n)
	}
	_, err = next.Recv(ctx, p[:0])
	return p[:0:0], err
}

// place has what came for a grant: as many bytes, or none if the offer was withdrawn.
func (r *reader) place(p, b []byte) int {
	r.offered -= len(b)
	r.pos += uint64(len(b))
	if len(b) == 0 {
		r.offered = 0
	}
	r.granted = 0
	if len(b) > 0 && len(p) >= len(b) && &p[0] == &b[0] {
		return len(b)
	}
	r.rest = b
	if len(p) == 0 || len(b) == 0 {
		return 0
	}
	return r.take(p)
}

// claim waits for the answer to a grant. It changes nothing.
func (r *reader) claim(ctx context.Context) (*efa.Claimed, frame, error) {
	cl, err := r.c.hub.ep.ClaimTag(ctx, laneBulk.match(r.c.id), r.c.fromWait...)
	if err != nil {
		return nil, frame{}, err
	}
	f, err := parse(laneBulk, &cl.Message)
	switch {
	case err != nil:
	case f.seq() != r.seq:
		err = violation("an answer to offer %d instead of %d", f.seq(), r.seq)
	case f.kind == kindBulk && f.n != r.granted:
		err = violation("%d bytes where %d were granted", f.n, r.granted)
	}
	if err != nil {
		r.c.peer.bin.put(r.c.hub, cl)
		return nil, f, err
	}
	return cl, f, nil
}

// await waits for bytes that an earlier call has left.
func (r *reader) await(ctx context.Context) error {
	select {
	case <-r.bulk.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b, err := r.bulk.b, r.bulk.err
	r.bulk = nil
	if err != nil {
		return r.c.broken(&r.err, err)
	}
	r.place(nil, b)
	return nil
}

// drain takes what still comes and throws it away, until the other side has ended its stream or
// ctx ends. Read is over by then.
func (r *reader) drain(ctx context.Context) {
	settle(&r.mu)
	r.stop()
	p := make([]byte, maxFrame)
	for r.err == nil && ctx.Err() == nil {
		if r.refill(); len(r.rest) > 0 {
			r.take(p)
			continue
		}
		_, _ = r.more(ctx, p) // the error is r's, or ctx's
	}
	if r.hold != nil {
		r.hold.cancel(net.ErrClosed) // or the endpoint's context would keep it
	}
	r.held.Release()
	r.rest, r.joined, r.held = nil, nil, efa.Delivery{}
}
