package endpoint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
)

type closeStep struct{ shard.Message }

type deviceDown struct {
	shard.Message
	err error
}

// What peers wait for gets a while to go out, and is looked at soon at first.
const (
	lingerMost  = time.Second
	lingerFirst = 100 * time.Microsecond
	lingerLast  = 5 * time.Millisecond
)

// Close ends every operation with ErrClosed and stops the endpoint, when peers were told
// of what has arrived, see [ope.Pools.Owes]. After it returned nothing touches the
// application's buffers.
func (e *Endpoint) Close(ctx context.Context) error {
	if e.ended.CompareAndSwap(false, true) {
		e.cfg.Shard.Post(e.ref, &closeStep{})
	}
	if err := e.cfg.Shard.Wait(ctx, &e.closed); err != nil {
		return err
	}
	e.refuse()
	return nil
}

// refuse ends what was submitted when nobody took requests any more. Who submits
// looks at closed afterwards, who closes looks at the ring afterwards, so one of
// them sees the other.
func (e *Endpoint) refuse() {
	e.late.Lock()
	defer e.late.Unlock()
	e.drainRequests()
	e.Flush(e.cfg.Shard)
}

func (e *Endpoint) endError() error {
	if e.cause != nil {
		return e.cause
	}
	return errno.ErrClosed
}

// onCloseStep goes one state further; between the states all messages that were
// under way have been handled.
func (e *Endpoint) onCloseStep() {
	sh := e.cfg.Shard
	switch e.state {
	case open:
		e.state = failing
		e.pools.Closing = true
		err := e.endError()
		e.failReceives(func(*ope.Order) bool { return false }, err)
		e.failAll(err)
		e.lingerEnd, e.lingerStep = sh.TurnTime().Add(lingerMost), lingerFirst
	case failing:
		if e.cause == nil && e.pools.Owes() && sh.TurnTime() < e.lingerEnd {
			sh.StartTimer(&e.linger, e.lingerStep, e.ref, &e.lingerM)
			e.lingerStep = min(2*e.lingerStep, lingerLast)
			return
		}
		// The queue pair ends here, so packets that it still had do too.
		e.state = flushing
		e.drainRequests()
		sh.RemovePoller(e.queue)
		sh.StopTimer(&e.trickle)
		_ = e.queue.QP().Close() // nothing to be done about it
		e.pools.CloseMemory()
		err := e.endError()
		e.pools.EachTx(func(t *ope.Txe) { sh.Tell(t.Ref(), &ope.Abandon{Err: err}) })
		e.pools.EachRx(func(r *ope.Rxe) { sh.Tell(r.Ref(), &ope.Abandon{Err: err}) })
	case flushing:
		e.state = stopped
		e.drainRequests()
		e.onEnd()
		e.Flush(sh)
		sh.RemovePoller(e)
		sh.Stop(e.ref)
		e.closed.Set()
		e.refuse()
		return
	case stopped:
		return
	}
	sh.Tell(e.ref, &closeStep{})
}

func (e *Endpoint) onEnd() {
	e.endTrail()
	if e.cfg.OnEnd != nil {
		e.cfg.OnEnd(e)
	}
}

// endTrail ends the lives of the endpoint and its peers. What comes later, perhaps on
// another goroutine, leaves nothing.
func (e *Endpoint) endTrail() {
	l := e.env.Trail
	if l == nil {
		return
	}
	var alive []uint64
	for _, byQPN := range e.routes.byAH {
		for _, x := range byQPN {
			if x.cur != nil && x.cur.Err == nil {
				alive = append(alive, x.cur.Span)
			}
		}
	}
	slices.Sort(alive)
	for _, span := range alive {
		l.Outcome(span, trail.PeerEnd, 0, nil)
	}
	l.Outcome(e.span, trail.EndpointEnd, 0, e.cause)
	l.Flush()
	e.env.Trail = nil
}

// drainRequests ends what was submitted too late.
func (e *Endpoint) drainRequests() {
	for r := e.reqs.Peek(); r != nil; r = e.reqs.Peek() {
		if r.Kind == ope.KindControl {
			r.More.Run()
		} else {
			e.reject(r, e.endError())
		}
		e.reqs.Drop()
	}
}

func (e *Endpoint) failAll(err error) {
	e.pools.EachTx(func(t *ope.Txe) { e.cfg.Shard.Tell(t.Ref(), &peer.Fail{Err: err}) })
	e.pools.EachRx(func(r *ope.Rxe) { e.cfg.Shard.Tell(r.Ref(), &peer.Fail{Err: err}) })
}

func (e *Endpoint) onDeviceDown(err error) {
	if !e.ended.CompareAndSwap(false, true) {
		e.lingerEnd = e.cfg.Shard.Now() // nobody can be told any more
		return
	}
	e.cause = fmt.Errorf("%w: %w", errno.ErrIO, err)
	e.event(Event{Kind: DeviceFailed, Handle: peer.Unlisted, Err: e.cause})
	e.onCloseStep()
}

// crashed ends the endpoint after a panic in itself: protoactor is about to stop
// its children, so nothing would ever end what is in progress. Every operation has
// its outcome before this returns.
func (e *Endpoint) crashed() {
	if e.state == stopped {
		return
	}
	sh := e.cfg.Shard
	e.ended.Store(true)
	e.cause = fmt.Errorf("%w: panic in the endpoint", errno.ErrIO)
	e.state = stopped
	sh.RemovePoller(e.queue)
	sh.RemovePoller(e)
	sh.StopTimer(&e.trickle)
	sh.StopTimer(&e.linger)
	_ = e.queue.QP().Close() // nothing to be done about it
	e.pools.CloseMemory()
	switch {
	case e.direct.Kind != 0:
		e.giveUp(&e.direct)
		e.dropDirect()
	case e.handling:
		e.giveUp(e.reqs.Peek())
		e.reqs.Drop()
	}
	e.failReceives(func(*ope.Order) bool { return false }, e.cause)
	e.pools.EachTx(func(t *ope.Txe) { t.Abort(e.cause) })
	e.pools.EachRx(func(r *ope.Rxe) { r.Abort(e.cause) })
	e.event(Event{Kind: DeviceFailed, Handle: peer.Unlisted, Err: e.cause})
	e.env.Trail.Put(e.span, trail.Restarted, 0, 0, 0)
	e.onEnd()
	e.closed.Set()
	e.refuse()
	sh.Stop(e.ref)
}

// giveUp ends the request that was being handled when the endpoint crashed, unless
// it had become an operation. It may have been the cause, so nothing else is done
// with it.
func (e *Endpoint) giveUp(r *ope.Request) {
	defer func() { _ = recover() }() // its sink may have been the cause
	if r.Kind != ope.KindControl && r.Kind != ope.KindCancel {
		e.reject(r, e.cause)
	}
}

// HandleFailure is the endpoint's supervision: a panic in an operation ends that
// operation, in a peer that peer, in the device queue the endpoint.
func (e *Endpoint) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, message any,
) {
	e.cfg.Log.Error("panic in an actor", "actor", child.Id, "reason", reason, "message", fmt.Sprintf("%T", message))
	if child.Equal(e.qref.PID()) {
		sup.StopChildren(child)
		e.cfg.Shard.Tell(e.ref, &deviceDown{err: fmt.Errorf("panic in the device queue: %v", reason)})
		return
	}
	// Restarting is what tells an actor that it panicked; see its Receive.
	sup.RestartChildren(child)
}
