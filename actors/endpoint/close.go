package endpoint

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// closing is the end of an endpoint, by Close, by a failed device or by a panic. It owns
// how far the end has come and why the endpoint ends, and it ends everything else: receives,
// operations, the queue pair, late requests, the actor. The other parts read its state and
// call err. Fields are the shard's unless they say otherwise.
type closing struct {
	e        *Endpoint
	state    state
	cause    error // why the endpoint ended, if not by Close
	closeErr error // of closing the queue pair; any goroutine once closed is set

	ended    atomic.Bool  // no more requests are taken; any goroutine
	closed   shard.Signal // all has ended; any goroutine
	refusing sync.Mutex   // held by the goroutine that refuses requests once closed is set

	successor *Endpoint // has the ring of requests now, nil: none; under refusing

	linger     shard.Timer // of a Close that waits until peers got their last packets
	lingerM    closeStep
	lingerStep time.Duration
	lingerEnd  clock.Time
}

type state uint8

const (
	open     state = iota
	failing        // operations are failing; peers get their last packets
	flushing       // the queue pair is closed; operations end
	stopped
)

var stateNames = [...]string{open: "open", failing: "closing", flushing: "closing", stopped: "closed"}

type closeStep struct{ shard.Message }

// A closing endpoint waits at most lingerMost for the packets that its peers still need.
// It looks after lingerFirst, then at intervals that double up to lingerLast.
const (
	lingerMost  = time.Second
	lingerFirst = 100 * time.Microsecond
	lingerLast  = 5 * time.Millisecond
)

// wait begins to close the endpoint and waits for the end. Any goroutine.
func (c *closing) wait(ctx context.Context) error {
	sh := c.e.cfg.Shard
	if c.ended.CompareAndSwap(false, true) {
		sh.Post(c.e.ref, &closeStep{})
	}
	if err := sh.Wait(ctx, &c.closed); err != nil {
		return err
	}
	c.refuse()
	if c.closeErr != nil {
		return fmt.Errorf("close the queue pair: %w", c.closeErr)
	}
	return nil
}

// err is the error of operations that end because the endpoint does.
func (c *closing) err() error {
	if c.cause != nil {
		return c.cause
	}
	return errno.ErrClosed
}

// step goes one state further. Between the states all messages that were under way are
// handled.
func (c *closing) step() {
	sh := c.e.cfg.Shard
	switch c.state {
	case open:
		c.state, c.e.special = failing, true
		c.failAll()
		c.lingerEnd, c.lingerStep = sh.TurnTime().Add(lingerMost), lingerFirst
	case failing:
		if c.cause == nil && c.e.pools.HasPending() && sh.TurnTime() < c.lingerEnd {
			sh.StartTimer(&c.linger, c.lingerStep, c.e.ref, &c.lingerM)
			c.lingerStep = min(2*c.lingerStep, lingerLast)
			return
		}
		c.state = flushing
		c.closeQueue()
	case flushing:
		c.state = stopped
		c.finish()
		return
	case stopped:
		return
	}
	sh.Tell(c.e.ref, &closeStep{})
}

// failAll ends the posted receives and makes the operations in progress fail.
func (c *closing) failAll() {
	e, err := c.e, c.err()
	e.pools.Closing = true
	if e.port != nil {
		e.watches.fail(func(*ope.Entry) bool { return false }, err)
		e.port.Fail(err)
		return
	}
	e.multi.drop()
	e.starved.drop()
	e.failReceives(func(*ope.Entry) bool { return false }, err)
	e.srx.leave()
	e.pools.EachTx(func(t *ope.Txe) { e.cfg.Shard.Tell(t.Ref(), &peer.Fail{Err: err}) })
	e.pools.EachRx(func(r *ope.Rxe) { e.cfg.Shard.Tell(r.Ref(), &peer.Fail{Err: err}) })
}

// closeQueue closes the queue pair, which ends the packets that it still had, and tells
// the operations.
func (c *closing) closeQueue() {
	e, sh := c.e, c.e.cfg.Shard
	c.drain()
	sh.RemovePoller(e.queue)
	e.pressure.stop()
	sh.StopTimer(&e.peers.overflow.timer)
	sh.StopTimer(&e.peers.checks.retry)
	sh.StopTimer(&e.peers.checks.timer)
	c.closeErr = e.queue.Close()
	e.pools.CloseMemory()
	err := c.err()
	if e.port != nil {
		e.port.Abandon(err)
	}
	e.pools.EachTx(func(t *ope.Txe) { sh.Tell(t.Ref(), &ope.Abandon{Err: err}) })
	e.pools.EachRx(func(r *ope.Rxe) { sh.Tell(r.Ref(), &ope.Abandon{Err: err}) })
}

// finish stops the actor. Every operation has ended.
func (c *closing) finish() {
	e, sh := c.e, c.e.cfg.Shard
	c.drain()
	c.atEnd()
	e.Flush(sh)
	sh.RemovePoller(e.poller())
	sh.Stop(e.ref)
	c.closed.Set()
	c.refuse()
}

// refuse ends what was submitted after the endpoint took its last request. Submit reads
// closed after it has claimed an entry, and the goroutine that closes reads the ring after it set
// closed and waits for what was claimed, so one of them finds the request. If the ring is a successor's by now, so is that.
func (c *closing) refuse() {
	if next := c.refuseOwn(); next != nil {
		next.Pushed()
	}
}

// refuseOwn returns the successor if there is one.
func (c *closing) refuseOwn() *Endpoint {
	c.refusing.Lock()
	defer c.refusing.Unlock()
	if c.successor == nil {
		c.drain()
		c.e.Flush(c.e.cfg.Shard)
	}
	return c.successor
}

// drain ends what was submitted too late.
func (c *closing) drain() {
	e := c.e
	for r := e.reqs.Rest(); r != nil; r = e.reqs.Rest() {
		switch r.Kind {
		case ope.KindControl:
			r.More.Run()
		case ope.KindNone: // it was given up
		default:
			e.reject(r, c.err())
		}
		e.drop(r)
	}
}

func (c *closing) atEnd() {
	c.endTrail()
	if c.e.cfg.OnEnd != nil {
		c.e.cfg.OnEnd(c.e)
	}
}

// endTrail records the end of the endpoint and of its peers. What happens later, perhaps
// on another goroutine, leaves no records.
func (c *closing) endTrail() {
	e, l := c.e, c.e.env.Trail
	if l == nil {
		return
	}
	e.peers.endTrail(l)
	l.Outcome(e.span, trail.EndpointEnd, 0, c.cause)
	l.Flush()
	e.env.Trail = nil
}

// onDeviceDown ends the endpoint because its queue pair is unusable.
func (c *closing) onDeviceDown(err error) {
	if !c.ended.CompareAndSwap(false, true) {
		c.lingerEnd = c.e.cfg.Shard.Now() // no packet goes out any more
		return
	}
	c.cause = fmt.Errorf("%w: %w", errno.ErrIO, err)
	c.e.cfg.OnEvent(Event{Kind: DeviceFailed, Handle: peer.Unlisted, Err: c.cause})
	c.step()
}

type deviceDown struct {
	shard.Message
	err error
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
	c.state, e.special = stopped, true
	sh.RemovePoller(e.queue)
	sh.RemovePoller(e.poller())
	e.pressure.stop()
	sh.StopTimer(&c.linger)
	_ = e.queue.Close() // nothing can be done about an error
	e.pools.CloseMemory()
	switch {
	case e.unqueued.Kind != 0:
		c.giveUp(&e.unqueued)
		e.unqueued.Forget()
	case e.handling:
		c.giveUp(e.reqs.Peek())
		e.drop(e.reqs.Peek())
	}
	if e.port != nil {
		e.port.Abandon(c.cause)
	}
	e.multi.drop()
	e.failReceives(func(*ope.Entry) bool { return false }, c.cause)
	e.srx.leave()
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

// An endpoint that its device has ended can be followed by another one, see Config.After.
// It has another connid, since it begins to count messages anew: its peers must not take its
// messages for ones that they have had.

// Await waits until e, which has [Endpoint.Ended], has given every operation its outcome.
// Any goroutine.
func Await(ctx context.Context, e *Endpoint) error {
	return e.cfg.Shard.Wait(ctx, &e.closing.closed)
}

// handOver makes the ring of requests the new endpoint's, which has handled nothing yet. Its ids
// go on where those of the former one ended: a Cancel that comes late is of none of its requests.
func (c *closing) handOver(to *Endpoint) {
	c.refusing.Lock()
	defer c.refusing.Unlock()
	c.successor = to
	to.reqs, to.lastUnqueued = c.e.reqs, c.e.lastUnqueued
	to.cfg.After = nil
}
