package endpoint

import (
	"context"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
)

// batch is how many requests a turn takes.
const batch = 64

// Poll takes requests from the application: the one that came without the ring, or those in
// it, which came later.
func (e *Endpoint) Poll(*shard.Shard) int {
	n := 0
	if e.unqueued.Kind != ope.KindNone {
		n = 1 + e.queue.GiveRoom() // waiters take it before new packets do
		e.handling = true
		e.handle(&e.unqueued)
		e.handling = false
		e.unqueued.Forget()
	} else if r := e.reqs.Peek(); r != nil {
		n = e.handleBatch(r)
	}
	if len(e.multi.placed) > 0 {
		e.multi.resume()
	}
	return n
}

// handleBatch handles requests that are in the ring, of which r is the first.
func (e *Endpoint) handleBatch(r *ope.Request) int {
	given, n := 0, 0
	if e.closing.state == open {
		given = e.queue.GiveRoom()
	}
	e.handling = true
	for ; r != nil && n < batch; n++ {
		e.handle(r)
		r.Forget()
		r = e.reqs.Next()
	}
	e.handling = false
	e.reqs.Free()
	return given + n
}

// drop ends the request at the head of the ring.
func (e *Endpoint) drop(r *ope.Request) {
	r.Forget()
	e.reqs.Drop()
}

// Flush ends a turn: what is held is weighed, completions are published.
func (e *Endpoint) Flush(*shard.Shard) {
	if e.env.Weigh {
		e.weigh()
	}
	e.cfg.OnFlush()
}

// weigh is what Flush has to do while anything is held, or somebody follows what happens.
func (e *Endpoint) weigh() {
	if e.closing.state == open {
		e.writes.flush()
		e.pressure.check()
	}
	e.env.Trail.Flush()
	e.env.Weigh = e.env.Trail != nil || len(e.writes.pending) > 0 || !e.pressure.calm()
}

// Arm is asked before the shard sleeps, which it has announced.
func (e *Endpoint) Arm() bool { return e.reqs.Idle() }

// FDs has nothing to add to the device's.
func (e *Endpoint) FDs() []int { return nil }

func (e *Endpoint) handle(r *ope.Request) {
	switch r.Kind {
	case ope.KindControl:
		r.More.Run()
	case ope.KindCancel:
		e.onCancel(r.ID)
	case ope.KindSend, ope.KindWrite:
		l := e.live(r)
		if l == nil {
			l = e.checked(r)
		}
		if l != nil && !e.pools.Send(r, l) {
			e.reject(r, errno.ErrAgain)
		}
	case ope.KindAtomic:
		e.beginAtomic(r)
	case ope.KindRead:
		e.onRead(r)
	case ope.KindRecv:
		e.onRecv(r)
	case ope.KindPeek, ope.KindClaim:
		e.claims.find(r)
	case ope.KindTake:
		e.claims.receive(r)
	case ope.KindNone: // it was given up
	case ope.KindWritten: // it is no request
		e.reject(r, errno.ErrInvalid)
	}
}

// live returns the peer of a request that can be taken at once; nil if checked is to look closer.
func (e *Endpoint) live(r *ope.Request) *peer.Link {
	if h := e.peers.byHandle; e.closing.state == open && r.Flags&ope.HasGeneration == 0 && r.Peer < uint64(len(h)) {
		if l := h[r.Peer]; l != nil && l.Takes() {
			return l
		}
	}
	return nil
}

// checked returns the peer of a request that cannot be taken at once, or rejects the request.
func (e *Endpoint) checked(r *ope.Request) *peer.Link {
	l := e.peers.lookup(r.Peer)
	var err error
	switch {
	case e.closing.state != open:
		err = e.closing.err()
	case r.Flags&ope.HasGeneration != 0 && e.outdated(r):
		l, err = nil, peer.ErrRemoved
	case l == nil:
		if l, err = e.peers.link(r.Peer); err == nil {
			err = l.Closed()
		}
	default:
		err = l.Closed()
	}
	if err != nil {
		if l != nil {
			l.Knock()
		}
		e.reject(r, err)
		return nil
	}
	return l
}

func (e *Endpoint) beginAtomic(r *ope.Request) {
	l := e.checked(r)
	switch {
	case l == nil:
	case r.AtomicSize() > ope.MaxAtomic(e.env.MTU):
		e.reject(r, errno.ErrMsgSize) // before it has a msg_id that would be lost
	case !e.pools.Send(r, l):
		e.reject(r, errno.ErrAgain)
	}
}

func (e *Endpoint) onRead(r *ope.Request) {
	if l := e.checked(r); l != nil && !e.pools.Read(r, l) {
		e.reject(r, errno.ErrAgain)
	}
}

func (e *Endpoint) onRecv(r *ope.Request) {
	if e.closing.state != open {
		e.reject(r, e.closing.err())
		return
	}
	var from *peer.Link
	if r.Peer < uint64(match.NotAvail) {
		if from = e.peers.lookup(r.Peer); from == nil || r.Flags&ope.HasGeneration != 0 {
			if from = e.source(r); from == nil {
				return
			}
		}
	}
	p := e.pools.Entries.Take(r)
	p.Born = e.cfg.Shard.Now()
	if e.env.Trail != nil {
		p.Follow(e.env.Trail, from)
	}
	p.Recv.Kind = match.KindOf(r.Flags&ope.Tagged != 0)
	p.Recv.Tag, p.Recv.Ignore, p.Recv.Source = r.Tag, r.Ignore, match.Source(r.Peer)
	if r.Flags&multiFlags != 0 && !e.multi.post(p) {
		return
	}
	switch m := e.table.Post(&p.Recv); {
	case m != nil:
		if x := e.pools.Rxe(m.Owner); r.Flags&ope.Sized == 0 {
			x.Match(p)
		} else {
			e.multi.matchSized(x, p)
		}
	case from == nil:
	case from.Err != nil: // and nothing of its had come before that
		e.table.RemoveRecv(&p.Recv)
		e.end(p, from.Err)
	default:
		p.Await(from)
	}
}

// source returns the peer from which alone a receive takes a message, as far as it is to be
// looked for, or rejects the receive.
func (e *Endpoint) source(r *ope.Request) *peer.Link {
	if r.Flags&ope.HasGeneration != 0 && e.outdated(r) {
		e.reject(r, peer.ErrRemoved)
		return nil
	}
	l, err := e.peers.link(r.Peer)
	if err != nil {
		e.reject(r, err)
		return nil
	}
	return l
}

// onCancel ends the operation id if it has not ended: a posted receive at once, an
// operation in progress as it can.
func (e *Endpoint) onCancel(id uint64) {
	var found *ope.Entry
	e.table.EachRecv(func(r *match.Recv) bool {
		if p := e.pools.Entries.At(r.Owner); p.Req.ID == id {
			found = p
		}
		return found == nil
	})
	if found != nil {
		e.table.RemoveRecv(&found.Recv)
		e.end(found, errno.ErrCanceled)
		return
	}
	e.pools.CancelParts(id, nil, errno.ErrCanceled)
	e.claims.waits.cancel(&e.claims, id)
	cancel := func(to shard.Ref, its uint64) {
		if its == id {
			e.cfg.Shard.Tell(to, &ope.Cancel{ID: id, Err: errno.ErrCanceled})
		}
	}
	e.pools.EachTx(func(t *ope.Txe) { cancel(t.Ref(), t.Request().ID) })
	e.pools.EachRx(func(r *ope.Rxe) { cancel(r.Ref(), r.RequestID()) })
}

// Revoke ends the operations that use a region which is being closed, or whose buffer lies
// in it. They have it in use until they have ended; the caller has it in use until Revoke
// returns. Runs on the shard.
func (e *Endpoint) Revoke(r *mr.Region) {
	if e.closing.state == stopped {
		return
	}
	if e.port != nil {
		e.port.Revoke(r)
		return
	}
	sh := e.cfg.Shard
	e.pools.EachTx(func(t *ope.Txe) {
		if t.Concerns(r) {
			sh.Tell(t.Ref(), &ope.Revoke{Region: r})
		}
	})
	e.pools.EachRx(func(x *ope.Rxe) {
		if x.Concerns(r) {
			sh.Tell(x.Ref(), &ope.Revoke{Region: r})
		}
	})
	e.multi.revoke(r)
	if mem := r.Bytes(); mem != nil {
		e.pools.CancelParts(0, mem, ope.ErrRegionClosed)
	}
	e.failReceives(func(o *ope.Entry) bool { return !o.Req.Touches(r.Bytes()) }, ope.ErrRegionClosed)
	if r.Access()&(device.RemoteRead|device.RemoteWrite) == 0 {
		return
	}
	for l := range e.peers.routes.all() {
		l.ForgiveKeys()
	}
}

// Recall ends the posted receives with the flag Sized that were made before somebody left message
// number round for them. On the shard.
func (e *Endpoint) Recall(round uint64) {
	if e.closing.state != open || e.table == nil {
		return
	}
	c := &e.multi
	c.round = max(c.round, round)
	var found []*ope.Entry
	e.table.EachRecv(func(r *match.Recv) bool {
		if o := e.pools.Entries.At(r.Owner); c.recalled(&o.Req) {
			found = append(found, o)
		}
		return true
	})
	for _, o := range found {
		e.table.RemoveRecv(&o.Recv)
		c.endRecalled(o)
	}
}

// reject ends a request that never became an operation.
func (e *Endpoint) reject(r *ope.Request, err error) {
	if r.Kind != ope.KindPeek && r.Kind != ope.KindClaim {
		e.pools.Tally.Count(r.Kind, 0, err)
		if l := e.env.Trail; l != nil {
			o := ope.Entry{Req: *r}
			o.Follow(l, nil)
			l.Outcome(o.Span, trail.Told, 0, err)
			l.Outcome(o.Span, trail.End, 0, err)
		}
	}
	complete(r, err)
}

// end ends a posted receive that nothing has matched.
func (e *Endpoint) end(o *ope.Entry, err error) {
	if o.Multi != nil {
		o.Multi.Close(err)
		return
	}
	e.env.Trail.Outcome(o.Span, trail.Told, 0, err)
	e.env.Trail.Outcome(o.Span, trail.End, 0, err)
	e.pools.Tally.Count(o.Req.Kind, 0, err)
	complete(&o.Req, err)
	e.pools.Entries.Put(o)
}

func complete(r *ope.Request, err error) {
	if s := r.Sink; s != nil {
		s.Done(r, &ope.Result{Err: err, Peer: r.Peer})
	}
	r.PutIOV()
}

// A request is made where the shard will handle it: in the endpoint's ring, or, by a goroutine
// that can run the shard itself, in the endpoint (Claim).

// Reserve takes an entry of the ring and returns the request there, which is zero but for an ID of
// which the uppermost bit is 0; nil if the ring is full. The caller fills the request in and
// calls Commit, at once: what comes later waits for that. Any goroutine.
func (e *Endpoint) Reserve() *ope.Request {
	r, ticket := e.reqs.Claim()
	if r != nil {
		r.ID = ticket
	}
	return r
}

// Commit submits the request that was reserved with this ID, whatever ID it has by now: the shard has
// it from now on. One of [ope.KindNone] is passed over.
func (e *Endpoint) Commit(ticket uint64) {
	e.reqs.Publish(ticket)
	if e.closing.closed.IsSet() {
		e.closing.refuse()
		return
	}
	e.cfg.Shard.Wake()
}

// Submit copies a request into the ring, and reports whether there was room for
// it. A request without an ID gets one, of which the uppermost bit is 0. Any goroutine.
func (e *Endpoint) Submit(r *ope.Request) bool {
	if !e.Push(r) {
		return false
	}
	e.Pushed()
	return true
}

// Push is Submit for callers that call Pushed after the last of several requests.
func (e *Endpoint) Push(r *ope.Request) bool {
	if r.ID != 0 {
		return e.reqs.Push(r, nil)
	}
	return e.reqs.Push(r, &r.ID)
}

// Pushed has the shard look at the requests.
func (e *Endpoint) Pushed() {
	if e.closing.closed.IsSet() {
		e.closing.refuse()
		return
	}
	e.cfg.Shard.Wake()
}

const unqueuedID = 3 << 62

// A goroutine that can run the shard itself needs no ring to hand a request over.

// Claim takes the shard and returns the request for Do or Begin, which give the shard back, as does
// Aside. The request is zero but for an ID of which the uppermost two bits are 1, and the
// caller fills it in at once. Claim returns nil if the caller cannot have the shard now, or requests
// that came before are still to be handled: then the request is to be submitted, too.
// Any goroutine.
func (e *Endpoint) Claim() *ope.Request {
	sh := e.cfg.Shard
	if !sh.Claim() {
		return nil
	}
	if e.polls == nil || e.closing.state != open || !e.reqs.Idle() || e.unqueued.Kind != ope.KindNone {
		sh.Release()
		return nil
	}
	e.lastUnqueued++ // by the shard's owner, and not in the ring's way
	e.unqueued.ID = unqueuedID | e.lastUnqueued
	return &e.unqueued
}

// Claimed reports whether a request is the one that Claim has returned to the caller.
func (e *Endpoint) Claimed(r *ope.Request) bool { return r == &e.unqueued }

// Aside is the request in memory of its own: one that was claimed is moved there, and the shard
// given back.
func (e *Endpoint) Aside(r *ope.Request) *ope.Request {
	if e.Claimed(r) {
		r = r.Moved()
		e.cfg.Shard.Release()
	}
	return r
}

// Do handles the request that was claimed and waits for sig, which its sink sets; see
// [shard.Shard.Wait].
func (e *Endpoint) Do(ctx context.Context, sig *shard.Signal) error {
	return e.cfg.Shard.RunAndWait(ctx, sig, e.polls)
}

// Begin handles the request that was claimed, of which the outcome is not waited for. What
// it holds of the caller's with [ope.Borrowed] is the caller's again. If nothing
// has happened, since the endpoint awaits its supervisor, Begin returns the request, which is to
// be submitted.
func (e *Endpoint) Begin() (left *ope.Request) {
	sh := e.cfg.Shard
	sh.Run(e.polls)
	if e.unqueued.Kind != ope.KindNone && !e.handling {
		left = e.unqueued.Moved()
	}
	sh.Release()
	return left
}
