package endpoint

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
)

type deviceDown struct {
	shard.Message
	err error
}

// HandleFailure is the endpoint's supervision: a panic in an operation ends that
// operation, in a peer that peer, in the device queue or the driver the endpoint.
func (e *Endpoint) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, message any,
) {
	e.env.LogOf(e.peers.of(child)).Error("panic in an actor", "actor", child.Id, "reason", reason, "message", fmt.Sprintf("%T", message))
	queue := child.Equal(e.qref.PID()) || e.port != nil // a port is of no use after a panic, either
	if queue || e.queue.Broken() {
		e.queue.Break()
		e.cfg.Shard.Tell(e.ref, &deviceDown{err: fmt.Errorf("panic in %s: %v", child.Id, reason)})
	}
	if queue {
		sup.StopChildren(child)
		return
	}
	// An actor learns from Restarting that it panicked; see its Receive.
	sup.RestartChildren(child)
}

// crashed ends the endpoint after a panic in itself: protoactor is about to stop its
// children, so nothing else would ever end what is in progress. Every operation has its
// outcome before crashed returns.
func (c *closing) crashed() {
	if c.state == stopped {
		return
	}
	e, sh := c.e, c.e.cfg.Shard
	c.ended.Store(true)
	c.cause = fmt.Errorf("%w: panic in the endpoint", errno.ErrIO)
	c.state = stopped
	sh.RemovePoller(e.queue)
	sh.RemovePoller(e.pollerOf())
	e.pressure.stop()
	sh.StopTimer(&c.linger)
	_ = e.queue.Close() // nothing can be done about an error
	e.pools.CloseMemory()
	switch {
	case e.direct.Kind != 0:
		c.giveUp(&e.direct)
		e.direct.Forget()
	case e.handling:
		c.giveUp(e.reqs.Peek())
		e.drop(e.reqs.Peek())
	}
	if e.port != nil {
		e.port.Abandon(c.cause)
	}
	e.many.drop()
	e.failReceives(func(*ope.Order) bool { return false }, c.cause)
	e.leave()
	e.pools.EachTx(func(t *ope.Txe) { t.Abort(c.cause) })
	e.pools.EachRx(func(r *ope.Rxe) { r.Abort(c.cause) })
	e.cfg.OnEvent(Event{Kind: DeviceFailed, Handle: peer.Unlisted, Err: c.cause})
	e.env.Trail.Put(e.span, trail.Restarted, 0, 0, 0)
	c.atEnd()
	c.closed.Set()
	c.refuse()
	sh.Stop(e.ref)
}

// giveUp ends the request that was being handled when the endpoint crashed, unless it had
// become an operation. The request may have caused the panic, so it is only rejected.
func (c *closing) giveUp(r *ope.Request) {
	defer func() { _ = recover() }() // its sink may have caused the panic
	if r.Kind == ope.KindNone || r.Kind == ope.KindControl || r.Kind == ope.KindCancel || c.e.port != nil && c.e.port.Has(r.ID) {
		return
	}
	c.e.reject(r, c.cause)
}
