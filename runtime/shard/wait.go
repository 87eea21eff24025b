package shard

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/sys"
)

// A manual shard belongs to the goroutine that waits. The rules:
//
//   - A waiter that can adopt the shard drives it: it turns the shard until its signal
//     is set.
//   - One that cannot polls its signal, then parks in the list of waiters.
//   - A driver that finds nothing to do for a while sleeps itself on the descriptors: it
//     takes the seat, of which there is one. If another waiter has the seat, it parks.
//   - Who sleeps owns nothing. A goroutine that drives the shard meanwhile lets the
//     sleeper sleep if there is nothing left to do, and wakes it otherwise.
//   - A driver that has woken others lets them run first, and comes back. Until then they use the shard and wait in
//     the list: Shard.coming.
//   - A driver that leaves, also the seat, wakes a parked waiter to drive. With none, it wakes the
//     helper if the helper sleeps without a time limit. While one is coming it wakes none.
//   - The helper takes a shard that was neither owned nor driven nor posted to during one of its
//     intervals, which get longer while others drive, unless a waiter has the seat. It gives way to a waiter within
//     a turn, and sleeps in the seat.
//
// A goroutine that polls instead of waiting calls Drive. One that has something to do
// on a shard without an owner claims the shard, has one poller do the work, and leaves
// or waits: Claim, then Run and Release, or RunAndWait.
//
// A pinned shard that is lent follows the same rules. Its helper is the pinned thread, which
// has the shard unless a goroutine waits or polls.

// Wait waits for sig. It returns nil once sig is set, the cause of ctx if that
// ended first, and ErrClosed if the shard closed without setting sig. On a manual
// shard, and a pinned one that is lent, the caller runs the shard meanwhile. It does not
// allocate unless it parks, or sleeps with another context than the last wait did.
func (s *Shard) Wait(ctx context.Context, sig *Signal) error {
	w := wait{s, ctx, sig}
	switch {
	case sig.IsSet():
		return nil
	case s.waiter != nil:
		return s.waiter.Wait(ctx, s, sig)
	case s.lent:
		return w.manual(false)
	case s.OnShard():
		return w.asOwner()
	}
	if w.watch() {
		return nil
	}
	return w.park()
}

// Waiter waits for a signal in place of the built-in way: a simulation's runs
// other coroutines until it is set. It returns nil when sig is set, the context's
// cause, or ErrClosed.
type Waiter interface {
	Wait(ctx context.Context, s *Shard, sig *Signal) error
}

// wait is one call of Wait. It lives on the stack of the goroutine that waits.
type wait struct {
	s   *Shard
	ctx context.Context
	sig *Signal
}

// watchSpin is how long a goroutine that cannot run the shard polls its signal
// before it parks: waking it takes about as long.
var watchSpin = 20 * time.Microsecond

// manual waits on a manual shard, which the caller owns already if mine is set.
func (w *wait) manual(mine bool) error {
	s := w.s
	if !mine && s.OnShard() {
		return w.asOwner()
	}
	for {
		switch {
		case !mine && s.closing.Load(): // the helper ends the actors, which may set the signal
			return w.park()
		case mine || s.owner.acquire():
			if !mine {
				s.clock.spend(adoptCost)
			}
			mine = false
			parked, err := w.drive()
			if err == errAgain { //nolint:errorlint // it is drive's own
				continue
			}
			if !parked {
				return err
			}
		case w.glance():
			return nil
		case s.owner.free():
			continue
		case !s.waiters.add(w.sig, s):
			return nil
		default:
			// Ask for the shard, then look once more: an owner that releases the shard
			// looks for waiters after that.
			s.waiters.want()
			if s.owner.free() && w.sig.unpark() {
				sys.Step()
				s.waiters.remove(w.sig)
				continue
			}
		}
		again, err := w.blocked()
		s.waiters.remove(w.sig)
		if !again {
			return err
		}
	}
}

// drive runs the shard, which the caller has adopted, and gives it up. parked
// means that there was nothing to do, so that the caller is to wait for a token.
func (w *wait) drive() (parked bool, err error) {
	s := w.s
	s.drives++
	w.sig.here = true
	s.idling.reset()
	for i := 1; ; i++ {
		n := s.idling.turn(s)
		switch {
		case w.sig.IsSet():
			s.idling.busy(&s.clock)
			w.release()
			return false, nil
		case s.closing.Load():
			w.release()
			return false, w.park()
		case i%32 == 0 && w.ctx.Err() != nil:
			w.release()
			return false, context.Cause(w.ctx)
		case n > 0:
			s.idling.busy(&s.clock)
			if s.woke && !w.letRun() {
				return false, errAgain
			}
		case s.coming.Load():
			w.sig.here = false
			return w.line(), nil
		case s.idling.longEnough(&s.clock):
			w.sig.here = false // others may take the shard, and set it
			mine, parked, err := w.sleep()
			if !mine {
				return parked, err
			}
			w.sig.here = true
		case !s.idling.relax(&s.clock):
		case s.waiters.wanted.Load() == 0:
			runtime.Gosched() // it keeps the shard: at GOMAXPROCS 1 the helper would have it then, and look at intervals
		case !w.letRun():
			return false, errAgain
		}
	}
}

// letRun lets other goroutines run first, on this processor: those that the turn has woken find the shard free, and then
// wait without running it, since the caller comes back. It reports whether the caller owns the shard again.
func (w *wait) letRun() bool {
	s := w.s
	s.woke, w.sig.here = false, false
	if s.coming.Load() {
		s.Release()
	} else {
		s.coming.Store(true)
		s.owner.release()
		sys.Step()
		runtime.Gosched()
		s.coming.Store(false) // before it looks whether the shard is free
	}
	if !s.owner.acquire() {
		return false
	}
	w.sig.here = true
	return true
}

// line parks the caller, who owns the shard, in the list of waiters and gives the shard up. It reports false if
// the signal is set.
func (w *wait) line() bool {
	parked := w.s.waiters.add(w.sig, w.s)
	w.s.Release()
	return parked
}

// release gives up the shard, which the caller has run.
func (w *wait) release() {
	w.sig.here = false
	w.s.Release()
}

// sleep has the caller, who owns the shard and has found nothing to do, sleep in the seat. mine says that
// it owns the shard again, or still. Otherwise it may be parked in the list of waiters, since the seat
// was taken, or it has to look for the shard, or the wait is over.
func (w *wait) sleep() (mine, parked bool, err error) {
	s, z := w.s, &w.s.sleeper
	if !z.sit() { // another waiter sleeps for the shard, or is about to take it
		return false, w.line(), nil
	}
	s.parking.announce()
	timeout, ok := z.ready()
	if deadline, has := w.ctx.Deadline(); has && ok {
		// If it has passed, the context is about to end.
		if left := max(deadline.Sub(clock.Wall()), deafPeriod/10); timeout < 0 || left < timeout {
			timeout = left
		}
	}
	if !ok || !w.sig.doze(s) {
		s.parking.end()
		z.rise()
		return true, false, nil // drive looks, also at the context
	}
	timeout = z.listen(seatWaiter, timeout)
	z.until = z.at(timeout)
	z.follow(w.ctx)
	s.clock.expire() // time goes on
	z.parks.Add(1)
	nap := s.idling.last < longGap
	s.makeWay()
	if w.ctx.Err() == nil && !s.closing.Load() {
		sys.Step()
		if bed := &z.beds[seatWaiter]; nap {
			bed.Nap(timeout)
		} else {
			bed.Wait(timeout)
		}
	}
	s.parking.end()
	sys.Step()
	set := !w.sig.undoze()
	mine = !set && s.owner.acquire()
	z.rise()
	switch {
	case mine:
		s.clock.expire()
		s.idling.woke(&s.clock)
		s.drives++
		return true, false, nil
	case !set:
		return false, false, errAgain
	}
	if s.owner.acquire() { // so that the helper has the seat, if there is nothing to do
		s.Release()
	} else { // the owner may have left the shard to this goroutine
		s.handOver()
	}
	return false, false, nil
}

// errAgain: the waiter has lost the shard while it slept.
var errAgain = errors.New("shard: look for the shard")

// watch polls the signal for a short while, and reports whether it was set.
func (w *wait) watch() bool {
	began := clock.System.Now()
	sys.Step()
	for i := 1; !w.sig.IsSet(); i++ {
		if i%16 == 0 && (w.ctx.Err() != nil || w.s.closing.Load() || clock.System.Now().Sub(began) > watchSpin) {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// glance waits a moment for the signal or for the shard, which has an owner, and reports whether the signal was set. Its
// processor is for those that have something to do: if a waiter drives the shard the wait may be long.
func (w *wait) glance() bool {
	for i := 0; i < glances && !w.sig.IsSet() && !w.s.owner.free(); i++ {
		pause()
	}
	return w.sig.IsSet()
}

// glances is how often glance looks: a few turns without work.
const glances = 32

// park waits for the signal without running anything.
func (w *wait) park() error {
	if !w.sig.park(w.s) {
		return nil
	}
	_, err := w.blocked()
	return err
}

// blocked waits for the token of a parked signal. again means that the token was
// not for the signal: the shard is to be driven.
func (w *wait) blocked() (again bool, err error) {
	sys.Await(false, func() bool { return len(w.sig.ch) > 0 || w.ctx.Err() != nil || w.s.life.over() })
	select {
	case drive := <-w.sig.ch:
		return w.came(drive), nil // although the signal may be set by now: leaving the shard hands it over
	case <-w.ctx.Done():
		err = context.Cause(w.ctx)
	case <-w.s.life.done:
		err = ErrClosed
	}
	sys.Step()
	if w.sig.unpark() {
		return false, err
	}
	sys.Await(false, func() bool { return len(w.sig.ch) > 0 })
	if w.came(<-w.sig.ch) {
		w.s.handOver() // it was for driving the shard, but this goroutine leaves
	}
	if w.sig.IsSet() {
		err = nil
	}
	return false, err
}

// came notes that the caller, who has its token, is not on its way any more. It looks whether the shard is free after that.
func (w *wait) came(drive bool) bool {
	if drive {
		w.s.coming.Store(false)
		sys.Step()
	}
	return drive
}

// asOwner waits in the goroutine that owns the shard by its own Adopt.
func (w *wait) asOwner() error {
	s := w.s
	if s.sched.inTurn() {
		return ErrInTurn
	}
	for i := 1; ; i++ {
		n := s.Turn()
		switch {
		case w.sig.IsSet():
			return nil
		case s.parking.isClosed():
			return ErrClosed
		case i%32 == 0 && w.ctx.Err() != nil:
			return context.Cause(w.ctx)
		case n == 0:
			runtime.Gosched()
		}
	}
}

// Drive runs one turn of a manual shard that has no owner and returns how much was
// done: progress for a goroutine that polls instead of waiting. If the helper has the
// shard it is asked to make way, so the next call may get it. On shards of other modes,
// and on one that the caller owns, it does nothing.
func (s *Shard) Drive() int {
	if !s.lent {
		return 0
	}
	if !s.owner.acquire() {
		if !s.OnShard() {
			s.waiters.want()
		}
		return 0
	}
	s.drives++
	s.clock.spend(adoptCost)
	n := s.Turn()
	s.Release()
	return n
}

// Run polls p on a shard that was claimed, and no other poller; then it ends the turn, for
// all of them.
func (s *Shard) Run(p *Polled) {
	s.posts++
	if !s.sched.over {
		s.clock.left -= adoptCost
		if s.step(p, phaseDeliver) < 0 {
			s.resumeTurn(p)
		}
	}
}

// RunAndWait polls p first on a shard that was claimed, in a turn that polls all others, too.
// Then it waits for sig as Wait does, and leaves the shard.
func (s *Shard) RunAndWait(ctx context.Context, sig *Signal, p *Polled) error {
	sig.here = true
	if !s.sched.over {
		s.clock.left -= adoptCost
		if s.step(p, phaseInbox) < 0 {
			s.resumeTurn(p)
		}
	}
	if !sig.IsSet() {
		w := wait{s, ctx, sig}
		return w.manual(true)
	}
	s.drives++
	sig.here = false
	s.Release()
	return nil
}

// makeWay ends the caller's ownership for a waiter that asked for the shard, if any. The
// caller knows that the helper looks after the shard otherwise.
func (s *Shard) makeWay() {
	s.owner.release()
	if s.waiters.takeWant() {
		sys.Step()
		s.waiters.wakeOne()
	}
}

// handOver finds a goroutine to look after a shard that its driver has left, unless one is on its way.
func (s *Shard) handOver() {
	sys.Step()
	if s.coming.Load() {
		return
	}
	switch z := &s.sleeper; {
	case z.seat.Load() == seatWaiter: // who hands the shard over on leaving
		z.ring(seatWaiter)
	case s.waiters.parked.Load() != 0 && s.waiters.wakeOne():
	case z.abed.Load():
		z.ring(seatHelper)
	default:
		s.Wake()
	}
}

// Wake makes the shard look at its pollers soon, if it sleeps. Any goroutine may
// call it.
func (s *Shard) Wake() {
	if !s.parking.isAwake() {
		s.sleeper.wake()
	}
}

// waiters are the goroutines that wait on a manual shard. Any goroutine may use it;
// the list is under mu.
type waiters struct {
	wanted atomic.Uint32 // 1: a waiter asks the owner to make way
	parked atomic.Uint32 // length of the list

	mu          sync.Mutex
	first, last *Signal
}

// want asks the owner to make way.
func (w *waiters) want() {
	sys.Step()
	w.wanted.Store(1)
	sys.Step()
}

// takeWant reports whether a waiter asked for the shard, and forgets that.
func (w *waiters) takeWant() bool { return w.wanted.Load() != 0 && w.wanted.Swap(0) != 0 }

// add parks g at the end of the list. It reports false if g is set.
func (w *waiters) add(g *Signal, s *Shard) bool {
	sys.Step()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !g.park(s) {
		return false
	}
	g.before, g.after, g.listed = w.last, nil, true
	if w.last == nil {
		w.first = g
	} else {
		w.last.after = g
	}
	w.last = g
	w.parked.Add(1)
	return true
}

// remove takes g out of the list if it is there.
func (w *waiters) remove(g *Signal) {
	sys.Step()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unlink(g)
}

// unlink is remove under the mutex.
func (w *waiters) unlink(g *Signal) {
	if !g.listed {
		return
	}
	if g.before == nil {
		w.first = g.after
	} else {
		g.before.after = g.after
	}
	if g.after == nil {
		w.last = g.before
	} else {
		g.after.before = g.before
	}
	g.before, g.after, g.listed = nil, nil, false
	w.parked.Add(^uint32(0))
}

// wakeOne wakes the waiter that has been parked longest, to drive the shard. It
// reports false if no waiter is parked whose signal is not set.
func (w *waiters) wakeOne() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.first != nil {
		g := w.first
		w.unlink(g)
		if g.unpark() {
			g.s.Load().coming.Store(true)
			g.token(true)
			return true
		}
	}
	return false
}

// Signal is a flag that completes a wait. The zero value is ready. Any goroutine
// and any shard may set it, any number of times; one goroutine at a time waits
// for it.
type Signal struct {
	state atomic.Uint64

	here bool // its waiter runs the shard; the shard owner's

	s atomic.Pointer[Shard] // where its waiter waits, or has waited

	// Written by the waiter before it parks, read by the goroutine that finds it parked.
	ch   chan bool // holds the one token that ends a park, true to drive the shard; made at the first
	next *Signal   // in the notifier's stack

	// In the list of parked waiters of a manual shard, under its mutex.
	before, after *Signal
	listed        bool
}

// States of a Signal. A goroutine that takes it out of parked, other than its waiter,
// sends a token.
const (
	sigUnset uint64 = iota
	sigSet
	sigParked
	sigDozing // its waiter sleeps in the seat: the seat's bell is its token
)

// Reset makes the signal ready for another wait. No goroutine may be waiting.
func (g *Signal) Reset() { g.state.Store(sigUnset) }

// Clear is Reset, without a barrier, of a signal that no other goroutine knows until it is handed out again.
func (g *Signal) Clear() { sys.StoreRelease(&g.state, sigUnset) }

// IsSet reports whether Set was called since Reset.
func (g *Signal) IsSet() bool { return g.state.Load() == sigSet }

// Set ends the wait. It never blocks and never allocates.
func (g *Signal) Set() {
	sys.Step()
	was := g.state.Swap(sigSet)
	sys.Step()
	switch was {
	case sigParked:
		g.deliver()
	case sigDozing:
		g.s.Load().sleeper.ring(seatWaiter) // if the waiter has left, perhaps of another shard: no harm
	}
}

// SetByOwner is Set by the owner of the shard on which the signal is waited for. If the owner is the
// waiter, no other goroutine looks at the signal, and it is set without a barrier.
func (g *Signal) SetByOwner() {
	if g.here {
		sys.StoreRelease(&g.state, sigSet)
		return
	}
	g.Set()
}

// deliver sends the token of a signal that was just set, and whose waiter is parked.
func (g *Signal) deliver() {
	s := g.s.Load()
	if s.notifier != nil {
		s.notifier.push(g)
		return
	}
	g.token(false)
	if s.owner.isCallerFast() {
		s.woke = true
	}
}

// park announces that the caller is about to wait for the token. It reports false if
// the signal is set, so that there will be none.
func (g *Signal) park(s *Shard) bool {
	if g.ch == nil {
		g.ch = make(chan bool, 1)
	}
	g.s.Store(s)
	return g.state.CompareAndSwap(sigUnset, sigParked)
}

// unpark takes the announcement back. It reports false if a token is on its way.
func (g *Signal) unpark() bool { return g.state.CompareAndSwap(sigParked, sigUnset) }

// doze announces that the caller is about to sleep in the seat. It reports false if the signal is set.
func (g *Signal) doze(s *Shard) bool {
	g.s.Store(s)
	return g.state.CompareAndSwap(sigUnset, sigDozing)
}

// undoze takes that back. It reports false if the signal is set.
func (g *Signal) undoze() bool { return g.state.CompareAndSwap(sigDozing, sigUnset) }

// token ends the park, to drive the shard or since the signal was set. There is one for each park, and it is taken.
func (g *Signal) token(drive bool) { g.ch <- drive }

// notifier wakes goroutines for a pinned shard: any goroutine may push, its own
// goroutine sends the tokens. A channel operation on a locked
// thread would leave the woken goroutine in that thread's own run queue, 0.1 ms
// from another processor; so the thread pushes the signal on a stack, and a
// goroutine that waits in the network poller sends the token.
type notifier struct {
	stack atomic.Pointer[Signal]
	bell  eventFD
	file  *os.File
}

func newNotifier() (*notifier, error) {
	n := &notifier{}
	if err := n.bell.open(); err != nil {
		return nil, err
	}
	n.file = os.NewFile(uintptr(n.bell.fd), "eventfd")
	return n, nil
}

// push hands g, whose state has just left parked, to the notifier. Its waiter
// does not return before it has the token, so g stays valid and is pushed once.
func (n *notifier) push(g *Signal) {
	for {
		top := n.stack.Load()
		g.next = top
		if n.stack.CompareAndSwap(top, g) {
			// The first push on an empty stack rings; later ones are popped with it.
			if top == nil && !n.bell.signal() {
				n.flush()
			}
			return
		}
	}
}

// flush sends the tokens of all signals on the stack, oldest first.
func (n *notifier) flush() {
	var list *Signal
	for g := n.stack.Swap(nil); g != nil; {
		below := g.next
		g.next = list
		list, g = g, below
	}
	for list != nil {
		g := list
		list, g.next = g.next, nil // after the token g is its waiter's again
		g.token(false)
	}
}

// run is the notifier's goroutine.
func (n *notifier) run() {
	var buf [8]byte
	for {
		_, err := n.file.Read(buf[:])
		n.flush()
		if err != nil {
			return
		}
	}
}

// stop ends run. Signals that are set later send their tokens themselves.
func (n *notifier) stop() {
	n.bell.seal()
	_ = n.file.Close()
}
