package efa

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/runtime/shard"
)

// A request struct and the lists in it, Bufs and Ats, are copied at the call and may be used
// again at once; the memory that they name is lent until the completion.

// span is what an operation may be part of, see [Telemetry].
type span = trace.SpanContext

// claimed is where a blocking call makes its request: in the endpoint, whose shard is the caller's
// then until do or inject has handed the request over, or else aside, where it is no more than a
// variable of the caller's. What the call may be refused for is checked before.
func (e *Endpoint) claimed() *ope.Request {
	if req := e.act.Load().Claim(); req != nil {
		return req
	}
	return new(ope.Request)
}

// do runs a request to its end, for which it takes one of places unless that is nil; msg, if
// it is not nil, describes the outcome. When ctx ends first the operation is canceled,
// and the call returns as soon as its buffer is free.
func (e *Endpoint) do(ctx context.Context, req *ope.Request, places *semaphore, msg *Message) error {
	if places != nil && !places.takeOne() && !places.take(1, false) {
		var err error
		if req, err = e.wait(ctx, req, places); err != nil {
			return err
		}
	}
	if e.tele != nil {
		e.traced(req, trace.SpanContextFromContext(ctx))
	}
	act := e.act.Load()
	owner := act.Claimed(req)
	c := e.newCall(owner)
	req.Sink = c
	id, ended := req.ID, error(nil)
	if owner {
		ended = act.Do(ctx, &c.sig)
	} else {
		e.submit(req)
		id = req.ID
		ended = e.sh.Wait(ctx, &c.sig)
	}
	if ended != nil && !c.sig.IsSet() {
		if err := e.withdraw(ctx, c, id, ended); err != nil {
			return err // c stays with the shard, for good
		}
	}
	err := c.err
	if err != nil {
		c.err = nil
	}
	if msg != nil {
		*msg = c.msg
	}
	c.sig.Clear() // nobody else takes the spare call before that
	if c != &e.spare {
		c.putOther()
	}
	if err != nil && ended != nil && errors.Is(err, ErrCanceled) {
		goesOn := errors.Is(err, ErrAlready)
		if err = contextError(ctx, ended); goesOn {
			err = fmt.Errorf("%w; the message goes on from a copy: %w", err, ErrAlready)
		}
	}
	return err
}

// newCall returns a call to wait for. owner: the caller has the shard, and takes the call that the
// endpoint keeps for goroutines that run its shard themselves. That belongs to the goroutine until it
// has read the outcome and cleared the signal, after which the shard does not touch the call. If
// the shard closes without an outcome the call stays with it.
func (e *Endpoint) newCall(owner bool) *call {
	if c := &e.spare; owner && c.over && !c.sig.IsSet() {
		c.over = false
		return c
	}
	c := calls.Get().(*call)
	c.to = e
	return c
}

// call is a blocking call in progress.
type call struct {
	to   *Endpoint // of its endpoint
	sig  shard.Signal
	over bool // it has its outcome, or none is due; the shard owner's
	msg  Message
	err  error // nil before the outcome
}

var calls = sync.Pool{New: func() any { return new(call) }}

// Done implements ope.Sink, on the shard.
func (c *call) Done(q *ope.Request, r *ope.Result) {
	if !c.to.onlyPlace(q) {
		c.to.finished(q, r)
	}
	c.msg.fill(kindOf(q.Kind, q.Flags), q, r)
	c.over = true
	if r.Err != nil {
		c.err = c.to.opError(q, r)
		c.sig.Set() // what comes too late is refused by goroutines that do not run the shard
		return
	}
	c.sig.SetByOwner()
}

// putOther takes back a call that no endpoint keeps.
func (c *call) putOther() {
	c.to, c.msg = nil, Message{}
	calls.Put(c)
}

// made runs a request that was made aside to its end, as do does, and gives it an ID.
func (e *Endpoint) made(ctx context.Context, req *ope.Request, places *semaphore, msg *Message) error {
	if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	if e.tele != nil {
		e.traced(req, trace.SpanContextFromContext(ctx))
	}
	to := req
	if claimed := e.act.Load().Claim(); claimed != nil {
		to = claimed
		if req.ID == 0 {
			req.ID = to.ID
		}
		*to = *req
	}
	return e.do(ctx, to, places, msg)
}

// run carries out a blocking call of which nothing but an error comes back.
func (e *Endpoint) run(ctx context.Context, req *ope.Request) error {
	if req.Flags&ope.Inject != 0 {
		if !e.av.table.holds(req.Peer) { // what is injected is for one peer
			putMore(req)
			return errNoPeer(Addr(req.Peer))
		}
		return e.inject(ctx, req, false)
	}
	return e.made(ctx, req, &e.tx, nil)
}

// wait waits for a place, and returns the request, which is aside then: nobody waits with the
// shard.
func (e *Endpoint) wait(ctx context.Context, req *ope.Request, places *semaphore) (*ope.Request, error) {
	req = e.act.Load().Aside(req)
	e.date(req)
	return req, places.wait(ctx, e.sh, 1, nil)
}

// withdraw cancels the operation of a call whose wait has ended, and waits for its outcome.
func (e *Endpoint) withdraw(ctx context.Context, c *call, id uint64, ended error) error {
	if errors.Is(ended, shard.ErrClosed) {
		return ErrClosed
	}
	e.cancel(id)
	if err := e.sh.Wait(context.WithoutCancel(ctx), &c.sig); err != nil {
		return ErrClosed
	}
	return nil
}

// contextError is the error of an operation that ended with its context: both
// ErrCanceled and the context's cause.
func contextError(ctx context.Context, err error) error {
	if errors.Is(err, shard.ErrClosed) {
		return ErrClosed
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w: %w", ErrCanceled, cause)
	}
	return err
}

// room takes what a posted operation needs: one of places, a slot of the queue for its outcome
// unless it is quiet, and a request in the ring, to be filled in there. It returns nil if
// something is missing.
func (e *Endpoint) room(to *source, places *semaphore, quiet bool) *ope.Request {
	if !places.takeOne() && !places.take(1, false) {
		return nil
	}
	if !quiet && !to.q.reserveOne() && to.q.reserve(1) == 0 {
		places.release()
		return nil
	}
	req := e.act.Load().Reserve()
	if req == nil {
		places.release()
		if !quiet {
			to.q.unreserve(1)
		}
	}
	return req
}

// hand hands over a request that has its room.
func (e *Endpoint) hand(req *ope.Request, to *source, parent *span) (OpID, error) {
	ticket := req.ID
	if req.Flags&(ope.Multi|ope.Inject) != 0 || e.tele != nil {
		if err := e.prepare(req, to, parent); err != nil {
			return 0, err
		}
	}
	req.Sink = to
	id := OpID(req.ID)
	e.act.Load().Commit(ticket)
	return id, nil
}

// prepare does for a request what few need.
func (e *Endpoint) prepare(req *ope.Request, to *source, parent *span) error {
	if req.Flags&ope.Multi != 0 && !to.q.keepOne() {
		e.giveUp(req, to, &e.rx, false)
		return errsAgain[ope.KindRecv]
	}
	own(req)
	if e.tele != nil {
		e.traced(req, *parent)
	}
	return nil
}

// giveUp gives back the room of a request that is not to be; quiet as room was told.
func (e *Endpoint) giveUp(req *ope.Request, to *source, places *semaphore, quiet bool) {
	ticket := req.ID
	req.Forget()
	e.act.Load().Commit(ticket)
	if !quiet {
		to.q.unreserve(1)
	}
	places.release()
}

// post hands a request over that was made aside, and whose outcome goes to a queue.
func (e *Endpoint) post(made *ope.Request, to *source, places *semaphore, parent *span) (OpID, error) {
	err := e.known(made)
	if to == nil {
		err = errNoQueue
	}
	if err != nil {
		putMore(made)
		return 0, e.refused(made.Kind, peerOf(made), err)
	}
	req := e.room(to, places, made.Flags&ope.Quiet != 0)
	if req == nil {
		putMore(made)
		return 0, errsAgain[made.Kind]
	}
	made.ID = req.ID
	*req = *made
	return e.hand(req, to, parent)
}

var noSpan span

// batch is requests of one kind on their way to the shard. Their places, and the slots of
// their completions, are taken in one step.
type batch struct {
	e      *Endpoint
	to     *source
	places *semaphore
	req    ope.Request

	credit, slots int // taken, not used yet
	n             int // accepted
	err           error
}

// begin sees to it that there is a place for the next request, where left are to come.
func (b *batch) begin(left int) bool {
	b.req = ope.Request{}
	switch {
	case b.to == nil:
		b.err = errNoQueue
	case b.credit == 0:
		if b.credit = b.places.takeSome(left); b.credit == 0 {
			b.err = ErrAgain
		}
	}
	return b.err == nil
}

// made notes whether the next request is one.
func (b *batch) made(err error) bool {
	b.err = err
	return err == nil
}

// push hands the request to the shard, which is not woken yet.
func (b *batch) push(parent *span) bool {
	if b.err = b.e.known(&b.req); b.err != nil {
		return false
	}
	quiet := b.req.Flags&ope.Quiet != 0
	if !quiet && b.slots == 0 {
		if b.slots = b.to.q.reserve(b.credit); b.slots == 0 {
			b.err = ErrAgain
			return false
		}
	}
	multi := b.req.Flags&ope.Multi != 0
	if multi && !b.to.q.keepOne() {
		if b.slots < 2 {
			b.err = ErrAgain
			return false
		}
		b.to.q.unreserve(1) // one that was to be a later request's
		b.slots--
		if multi = b.to.q.keepOne(); !multi {
			b.err = ErrAgain
			return false
		}
	}
	b.e.accept(&b.req, b.to)
	if b.e.tele != nil {
		b.e.traced(&b.req, *parent)
	}
	if !b.e.act.Load().Push(&b.req) {
		if multi {
			b.to.q.leaveOne()
		}
		disown(&b.req)
		b.req.PutIOV()
		b.err = ErrAgain
		return false
	}
	b.credit--
	if !quiet {
		b.slots--
	}
	b.n++
	return true
}

// end gives back what was not used, and wakes the shard.
func (b *batch) end() (int, error) {
	if b.slots > 0 {
		b.to.q.unreserve(b.slots)
	}
	if b.n > 0 {
		b.e.act.Load().Pushed()
	}
	if b.credit > 0 {
		b.places.settle(-int64(b.credit))
	}
	if b.err != nil {
		kind := ope.KindSend
		if b.places == &b.e.rx {
			kind = ope.KindRecv
		}
		b.err = b.e.refused(kind, b.peer(), b.err)
	}
	return b.n, b.err
}

// peer is the one of the request that was refused, if it was made.
func (b *batch) peer() Addr { return peerOf(&b.req) }

// Request is what Start takes: *SendReq, *RecvReq, *PacketReq, *WriteReq, *ReadReq or *AtomicReq.
type Request interface {
	// request makes the request for the shard of the caller's.
	request(*Endpoint, *ope.Request) (parent *span, err error)
	target() (ope.Kind, Addr) // for errors
}

// Op is an operation in progress whose outcome goes to nobody but its owner: for
// libraries, which have no queue of their own on an endpoint that they were given. It
// allocates.
type Op struct {
	ep   *Endpoint
	id   OpID
	done chan struct{}
	sig  shard.Signal
	res  Completion
}

// Start posts an operation whose outcome is asked of the Op; no queue is needed,
// and Quiet has no meaning. It fails as PostSend does.
func (e *Endpoint) Start(r Request) (*Op, error) {
	var req ope.Request
	parent, err := r.request(e, &req)
	if err != nil {
		return nil, e.refusedOf(r, err)
	}
	if req.Flags&ope.Multi != 0 {
		return nil, e.refused(req.Kind, NoAddr, errMultiStart)
	}
	if err := e.known(&req); err != nil {
		putMore(&req)
		return nil, e.refused(req.Kind, peerOf(&req), err)
	}
	if !e.credits(&req).take(1, false) {
		putMore(&req)
		return nil, errsAgain[req.Kind]
	}
	op := &Op{ep: e, done: make(chan struct{})}
	req.Flags &^= ope.Quiet
	req.ID = ownID | e.lastID.Add(1)
	e.accept(&req, (*opSink)(op))
	if e.tele != nil {
		e.traced(&req, *parent)
	}
	op.id = OpID(req.ID)
	if !e.act.Load().Submit(&req) {
		e.refuse(&req)
		return nil, errsAgain[req.Kind]
	}
	return op, nil
}

type opSink Op

// Done implements ope.Sink, on the shard.
func (o *opSink) Done(q *ope.Request, r *ope.Result) {
	op := (*Op)(o)
	op.ep.finished(q, r)
	op.res.fill(op.ep, q, r)
	o.sized(q)
	op.sig.Set()
	close(op.done)
}

// ID names the operation.
func (o *Op) ID() OpID { return o.id }

// Done is closed when the operation has ended, in every progress mode without
// anybody's help. Wait is faster.
func (o *Op) Done() <-chan struct{} { return o.done }

// Wait waits for the outcome, and returns it at once after Done. The end of ctx ends
// the wait, not the operation.
func (o *Op) Wait(ctx context.Context) (Completion, error) {
	select {
	case <-o.done: // in a simulation nobody else runs meanwhile, then
		return o.res, o.res.Err
	default:
	}
	if err := o.ep.sh.Wait(ctx, &o.sig); err != nil {
		select {
		case <-o.done:
		default:
			return Completion{}, callError("wait", contextError(ctx, err))
		}
	}
	return o.res, o.res.Err
}

// Cancel asks for the end of the operation; its outcome comes as always.
func (o *Op) Cancel() { o.ep.cancel(uint64(o.id)) }

// Cancel asks for the end of an operation. Its outcome comes as always, with
// ErrCanceled unless it was too late. To cancel what has ended does nothing.
func (e *Endpoint) Cancel(id OpID) (err error) {
	defer formed("cancel", &err)
	if err := e.live(); err != nil {
		return err
	}
	e.cancel(uint64(id))
	return nil
}

func (e *Endpoint) cancel(id uint64) { e.submit(&ope.Request{Kind: ope.KindCancel, ID: id}) }

// control has f run on the shard, or, after the end of the endpoint, somewhere
// else, where it finds nothing to do.
func (e *Endpoint) control(f func()) {
	e.submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: f}})
}

// submit puts a request into the ring, however full it is.
func (e *Endpoint) submit(req *ope.Request) {
	for !e.act.Load().Submit(req) {
		e.date(req)
		e.giveWay()
	}
}

// giveWay has the shard empty a ring that is full.
func (e *Endpoint) giveWay() {
	if e.dom.sim && e.sh.Adopt() { // nobody else runs at the same time
		e.sh.Turn()
		e.sh.Release()
		return
	}
	e.sh.Drive()
	runtime.Gosched()
}

// accept makes an operation of a request that has its place: it gets a sink and, if it is
// injected, a copy of its bytes. It is to be handed to the shard then, which gives it an id unless it has one, or
// refused.
func (e *Endpoint) accept(req *ope.Request, sink ope.Sink) {
	req.Sink = sink
	if req.Flags&(ope.Inject|ope.Borrowed) == ope.Inject {
		own(req)
	}
}

// ownID marks the ids that the endpoint has not given, see [endpoint.Endpoint.Submit].
const ownID = 1 << 63

// traced makes a request that was accepted part of a span of the application, if there is one.
func (e *Endpoint) traced(req *ope.Request, parent trace.SpanContext) {
	if parent.IsValid() && req.Flags&ope.Traced == 0 {
		if req.ID>>62 != ownID>>62 { // parents are kept by such ids
			req.ID = ownID | e.lastID.Add(1)
		}
		req.Flags |= ope.Traced
		e.tele.SetParent(req.ID, parent)
	}
}

// refuse takes back what accept did to a request that the shard had no room for, and its
// place.
func (e *Endpoint) refuse(req *ope.Request) {
	disown(req)
	putMore(req)
	e.credits(req).release()
}

// credits is what bounds operations like req; nil: nothing does.
func (e *Endpoint) credits(req *ope.Request) *semaphore {
	switch req.Kind {
	case ope.KindPeek, ope.KindClaim:
		if req.Flags&ope.Discard == 0 {
			return nil // it holds nothing
		}
		return &e.rx
	case ope.KindRecv, ope.KindTake:
		return &e.rx
	default:
		return &e.tx
	}
}

// A blocking call has the error of an unknown handle from the shard, which looks the handle up
// in any case. A call that does not wait for the outcome looks by itself first.

// known checks that the handle of a request is one.
func (e *Endpoint) known(req *ope.Request) error {
	if !aimed(req) || e.cfg.AV.table.holds(req.Peer) {
		return nil
	}
	return errNoPeer(Addr(req.Peer))
}

// date notes which peer the handle of a request means, before the call waits: the handle may
// be removed, and used again, meanwhile.
func (e *Endpoint) date(req *ope.Request) {
	if aimed(req) && req.Flags&ope.HasGeneration == 0 {
		req.SetGeneration(e.cfg.AV.table.get(req.Peer).age)
	}
}

// aimed reports whether a request is for one peer, or a receive from one.
func aimed(req *ope.Request) bool {
	switch req.Kind {
	case ope.KindSend, ope.KindWrite, ope.KindRead, ope.KindAtomic:
		return true
	case ope.KindRecv:
		return req.Peer < uint64(match.NotAvail)
	default:
		return false
	}
}

// peerOf is the peer of a request that has one.
func peerOf(req *ope.Request) Addr {
	if aimed(req) {
		return Addr(req.Peer)
	}
	return NoAddr
}

// freeRows is a power of two, so that no index needs a check.
const freeRows = 4

// notPlain are the flags of operations that may end with more than their place. Of Inject
// and Borrowed there are both or none in those that do not: the endpoint has no copy of their bytes.
const notPlain = ope.Inject | ope.Borrowed | ope.Discard | ope.Multi | ope.Part | ope.Sized

func (e *Endpoint) initOutcomes(cfg *EndpointConfig) {
	e.av = cfg.AV
	e.tx.init(cfg.TxDepth, 1024)
	e.rx.init(cfg.RxDepth, 16384)
	e.sent, e.received, e.wrote, e.fetched = cfg.SendCounter, cfg.RecvCounter, cfg.WriteCounter, cfg.ReadCounter
	if e.sent == nil && e.received == nil {
		e.plain = ope.KindRecv + 1
	}
}

// onlyPlace gives back the place of an operation if it had nothing else, as most have. If not
// it returns false, and finished does it.
func (e *Endpoint) onlyPlace(q *ope.Request) bool {
	f := q.Flags & notPlain
	if q.Kind >= e.plain || f != 0 && f != ope.Inject|ope.Borrowed || q.More != nil {
		return false
	}
	e.free[q.Kind%freeRows]++
	return true
}

// finished does what outcomes need: what was fetched goes where it belongs,
// copies and places are given back, and it is counted.
func (e *Endpoint) finished(q *ope.Request, r *ope.Result) {
	switch q.Kind {
	case ope.KindSend: // the others are below
		if r.Err == nil && (q.More != nil || q.Flags&(ope.Inject|ope.Borrowed) == ope.Inject) {
			left(q, r)
		}
		e.free[ope.KindSend]++
		if e.sent != nil {
			e.sent.count(r.Err)
		}
	case ope.KindPeek, ope.KindClaim:
		if q.Flags&ope.Discard != 0 {
			e.free[ope.KindRecv]++ // else it takes no place
		}
		return
	case ope.KindRecv, ope.KindTake:
		if q.Flags&(ope.Multi|ope.Part|ope.Sized) != 0 {
			e.finishedMany(q, r)
			return
		}
		if q.More != nil && (r.Err == nil || r.Lost > 0) {
			scatter(q, r)
		}
		e.free[ope.KindRecv]++
		if e.received != nil && q.Flags&ope.Discard == 0 {
			e.received.count(r.Err)
		}
		return
	default:
		if r.Err == nil {
			left(q, r)
		}
		e.free[ope.KindSend]++
		if c := e.counter(q); c != nil {
			c.count(r.Err)
		}
	}
}

// left gives back what an operation had that has succeeded: one that failed may go on, with
// nobody waiting for it.
func left(q *ope.Request, r *ope.Result) {
	if q.More != nil {
		scatter(q, r)
		fetched(q)
		putMore(q)
	}
	disown(q)
}

// scatter fills the pieces of a request with what came.
func scatter(q *ope.Request, r *ope.Result) {
	if q.More.Pieces == nil {
		return
	}
	data := q.Buf[:r.N]
	for _, p := range q.More.Pieces {
		data = data[copy(p, data):]
	}
}

// counter is where an operation that began here, other than a message, is counted.
func (e *Endpoint) counter(q *ope.Request) *Counter {
	switch {
	case q.Kind == ope.KindWrite, q.Kind == ope.KindAtomic && q.Form == ope.AtomicWrite:
		return e.wrote
	default:
		return e.fetched
	}
}

// mores are used again and again by atomics that fetch.
var mores = sync.Pool{New: func() any { return new(ope.More) }}

// putMore takes back what an atomic, or an operation with lists, has beyond other requests,
// when nobody will look at it again.
func putMore(q *ope.Request) {
	q.PutIOV()
	if q.Kind == ope.KindAtomic && q.More != nil {
		*q.More = ope.More{}
		mores.Put(q.More)
		q.More = nil
	}
}

// opError makes the public error of an outcome that is none.
func (e *Endpoint) opError(q *ope.Request, r *ope.Result) error {
	if errors.Is(r.Err, ErrNoMessage) {
		return errsNoMessage[q.Kind] // who looks again and again allocates nothing
	}
	x := &OpError{Op: opName(q.Kind), Peer: Addr(q.Peer), Err: r.Err}
	if receives(q) {
		x.Peer = Addr(r.Peer)
	}
	x.Name = e.av.Name(x.Peer)
	var s *peer.StatusError
	if errors.As(r.Err, &s) {
		x.Provider = s.Provider
		if s.Status == device.StatusBadAddress {
			x.Err = fmt.Errorf("%w: %w", ErrAccess, r.Err) // one error for all who may not
		}
	}
	var p *peer.RemoteError
	if errors.As(r.Err, &p) {
		x.Provider = p.Provider
	}
	var t *ope.Truncated
	if errors.As(r.Err, &t) {
		x.N, x.Lost = t.Placed, t.Lost
	}
	if errors.Is(r.Err, peer.ErrRemoved) {
		x.Err = fmt.Errorf("%w: %w", ErrCanceled, r.Err)
	}
	return x
}

// refused is the error of an operation that was not accepted, or whose caller's context has ended. One
// that is an operation's error already stays as it is. It is no [OpError], so that a program can tell an
// operation that has failed from one that was never begun.
func (e *Endpoint) refused(kind ope.Kind, to Addr, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrAgain):
		return errsAgain[kind]
	case errors.Is(err, ErrNoMessage):
		return errsNoMessage[kind]
	case errors.As(err, new(*OpError)), errors.As(err, new(*TooLongError)), errors.As(err, new(*errtext.Error)):
		return err
	}
	return &errtext.Error{Package: "efa", Op: opAt(opName(kind), to, e.av.Name(to)), Err: err}
}

// refusedOf is refused for a request of the application's.
func (e *Endpoint) refusedOf(r Request, err error) error {
	kind, to := r.target()
	return e.refused(kind, to, err)
}

var errNoQueue = fmt.Errorf("%w: the endpoint has no queue for the outcome", ErrNoCQ)
