package shard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/sys"
)

const (
	// early is how long before a timer a sleeper wakes, to be on time in spite of
	// the kernel's timer slack (50 us) and the way back from a system call.
	early = 60 * time.Microsecond
	// otherClockPeriod is how often a sleeper looks at a clock that is not the system's.
	otherClockPeriod = time.Millisecond
	// deafPeriod is how long a sleep lasts that descriptors do not end.
	deafPeriod = time.Millisecond
	// patience is how often the helper looks for a shard that it was woken for.
	patience = 16
	// hurryCalls is after how many calls a shard whose helper sleeps finds that it is called in a hurry: more often
	// than once in hurryPeriod.
	hurryCalls  = 32
	hurryPeriod = 16 * time.Microsecond
	// keepRing is the ring size, in entries, that survives a sleep.
	keepRing = 4096
)

// sleeper has a goroutine sleep for the shard, until a bell rings, which is an eventfd, or a descriptor of the
// pollers is readable: the waiter or the helper of a lent shard, or the loop of one that is not lent. One at a time does,
// and has the seat. When a waiter takes it the helper sleeps on, with the descriptors set aside; when the waiter
// leaves they count for the helper again, and it has the seat without having been awake. Any goroutine may call wake,
// ring and wakeHelper.
type sleeper struct {
	s        *Shard
	seat     atomic.Uint32 // who sleeps for the shard
	abed     atomic.Bool   // the helper is in rest, in the seat or not
	due      atomic.Int64  // when the helper wakes by itself then, a clock.Time; or never
	handover chan struct{} // wakes the helper in standBy
	alarm    *time.Timer   // of standBy

	// Of the shard's owner.
	fds    []int           // of the pollers
	until  clock.Time      // when the waiter in the seat wakes for a timer, at the latest; never: not
	cancel <-chan struct{} // Done of the context that rings for the waiter in the seat
	stop   func() bool     // ends that
	calls  int             // of hurried, since it read the clock
	since  clock.Time      // when it did

	bells [2]eventFD     // of the helper, or the shard's loop, and of a waiter in the seat
	beds  [2]sys.WaitSet // theirs

	parks, wakes atomic.Uint64
}

// Holders of the seat. The owner of the shard takes it, or gives it to the helper; the goroutine that sleeps in it gives it up.
const (
	seatHelper uint32 = iota // the index of its bell, too
	seatWaiter
	seatFree
)

func (z *sleeper) init(s *Shard) {
	z.s = s
	z.seat.Store(seatFree)
	z.handover = make(chan struct{}, 1)
	z.alarm = clock.NewTimer(time.Hour)
	z.alarm.Stop()
}

// wake ends a sleep, or, once the shard is closed, cancels what was posted.
func (z *sleeper) wake() {
	s := z.s
	if s.parking.end() {
		z.wakes.Add(1)
		sys.Step()
		if at := z.seat.Load(); at != seatFree {
			z.ring(at)
		}
		return
	}
	if s.parking.isClosed() {
		s.inbox.cancelAll(&s.faults)
	}
}

// park has the loop of a shard that is not lent sleep until there is work.
func (z *sleeper) park() {
	s := z.s
	z.seat.Store(seatHelper)
	// Announce it first, then look: a goroutine that brings work after the look sees
	// the announcement.
	s.parking.announce()
	if timeout, ok := z.ready(); ok {
		timeout = z.listen(seatHelper, timeout)
		z.parks.Add(1)
		z.beds[seatHelper].Nap(timeout)
	}
	s.parking.end()
	z.seat.Store(seatFree)
	s.clock.expire() // time goes on
	s.idling.reset()
}

// rest has the helper, who owns the shard, sleep until there is work for it or it is called. It reports
// whether the helper owns the shard again.
func (z *sleeper) rest() bool {
	s := z.s
	var timeout time.Duration
	sys.Step()
	if z.seat.CompareAndSwap(seatFree, seatHelper) {
		s.parking.announce()
		var ok bool
		if timeout, ok = z.ready(); !ok {
			s.parking.end()
			z.rise()
			return true
		}
		timeout = z.listen(seatHelper, timeout)
	} else { // a waiter sleeps for the shard
		z.beds[seatHelper].SetAside()
		timeout, _ = z.left()
	}
	z.due.Store(int64(z.at(timeout)))
	sys.Step()
	z.abed.Store(true)
	z.parks.Add(1)
	s.clock.expire()
	s.makeWay()
	for z.seat.Load() != seatFree && !z.beds[seatHelper].Nap(timeout) && z.seat.Load() != seatHelper {
		// Its time is up, but a waiter has the seat, who heeds that. If the seat is given to the helper
		// from now on, its giver knows that it wakes for no timer.
		sys.Step()
		z.due.Store(int64(never))
		sys.Step()
		timeout = -1
		if z.seat.Load() == seatHelper {
			break
		}
	}
	sys.Step()
	z.abed.Store(false)
	sys.Step()
	z.answer()
	z.seat.CompareAndSwap(seatHelper, seatFree)
	for i := 0; !s.owner.acquire(); i++ { // a goroutine that posts has the shard for a moment
		if i == patience {
			return false
		}
		runtime.Gosched()
	}
	if z.seat.Load() == seatWaiter { // who sleeps, and has announced that
		s.Release()
		return false
	}
	s.parking.end() // by the owner: another may be about to sleep
	s.clock.expire()
	s.idling.reset()
	return true
}

// ready arms the pollers and reports whether there is nothing to do, and for how
// long; a negative time is without limit. Owner only.
func (z *sleeper) ready() (time.Duration, bool) {
	s := z.s
	if !s.pollers.arm(s) || s.closing.Load() {
		return 0, false
	}
	fds, ok := s.pollers.descriptors(s, z.fds[:0])
	z.fds = fds
	if !ok || !s.inbox.idle() || !s.delivery.empty() {
		return 0, false
	}
	s.delivery.trim()
	return z.left()
}

// left returns how long it is until the next timer, and whether that is worth a sleep. Owner only.
func (z *sleeper) left() (time.Duration, bool) {
	s := z.s
	if s.wheel.next == never {
		return -1, true
	}
	if !s.clock.isSystem() {
		return otherClockPeriod, true
	}
	s.clock.read()
	left := s.wheel.next.Sub(s.clock.now) - early
	return max(left, 0), left > 0
}

// sit takes the seat for a waiter who owns the shard, from the helper as well. It reports false if
// another waiter has it.
func (z *sleeper) sit() bool {
	sys.Step()
	if !z.seat.CompareAndSwap(seatFree, seatWaiter) && !z.seat.CompareAndSwap(seatHelper, seatWaiter) {
		return false
	}
	if z.abed.Load() {
		z.beds[seatHelper].SetAside()
	}
	return true
}

// rise gives the seat up.
func (z *sleeper) rise() {
	sys.Step()
	z.seat.Store(seatFree)
	sys.Step()
}

// settle reports whether the owner of the shard may leave it to a sleeper: to the one in the seat, or to the
// helper, who is given the seat. There is nothing to do then, and nothing that the sleeper does not wait for.
func (z *sleeper) settle() bool {
	s := z.s
	if s.closing.Load() {
		return false // a closed shard stays closed
	}
	if z.seat.Load() != seatWaiter && z.hurried() {
		return false
	}
	sys.Step()
	if !z.seat.CompareAndSwap(seatFree, seatHelper) && z.seat.Load() == seatWaiter {
		return z.mayGoOn()
	}
	s.parking.announce()
	timeout, ok := z.ready()
	if ok {
		timeout = z.listen(seatHelper, timeout)
		sys.Step()
		if z.abed.Load() && clock.Time(z.due.Load()) <= z.at(timeout) {
			return true
		}
	}
	s.parking.end()
	z.seat.CompareAndSwap(seatHelper, seatFree)
	return false
}

// hurried reports whether it is cheaper to wake the helper, who then looks at intervals, than to arm the pollers for a sleeping
// helper whenever the shard is given up. A look of the helper takes 30 us, to arm them 1, and a system call if
// one of them is tcp's. Owner only.
func (z *sleeper) hurried() bool {
	if z.calls++; z.calls < hurryCalls {
		return false
	}
	s := z.s
	s.clock.read()
	took := s.clock.now.Sub(z.since)
	z.calls, z.since = 0, s.clock.now
	return took < hurryCalls*hurryPeriod
}

// mayGoOn is settle with a waiter in the seat.
func (z *sleeper) mayGoOn() bool {
	z.s.parking.announce()
	timeout, ok := z.ready()
	return ok && z.until <= z.at(z.listen(seatWaiter, timeout))
}

// listen has the pollers' descriptors end a sleep, and returns how long it may last instead of timeout: not long if the
// system has no room for them. Owner only.
func (z *sleeper) listen(who uint32, timeout time.Duration) time.Duration {
	if z.beds[who].Watch(z.fds, z.s.pollers.gen) || timeout >= 0 && timeout < deafPeriod {
		return timeout
	}
	return deafPeriod
}

// at returns when timeout is over. Owner only.
func (z *sleeper) at(timeout time.Duration) clock.Time {
	if timeout < 0 {
		return never
	}
	return z.s.clock.now.Add(timeout)
}

// afterFunc is replaced by tests that decide when it is called.
var afterFunc = context.AfterFunc

// follow has the end of ctx wake the waiter in the seat, who owns the shard.
func (z *sleeper) follow(ctx context.Context) {
	done := ctx.Done()
	if done == nil || done == z.cancel {
		return
	}
	if z.stop != nil {
		z.stop()
	}
	z.cancel, z.stop = done, afterFunc(ctx, func() {
		if z.seat.Load() == seatWaiter { // a sleeper looks at its context after it took the seat
			z.ring(seatWaiter)
		}
	})
}

// answer forgets that the helper was called.
func (z *sleeper) answer() {
	select {
	case <-z.handover:
	default:
	}
}

// ring wakes who has the seat, or is about to sleep in it.
func (z *sleeper) ring(who uint32) { z.bells[who].signal() }

func (z *sleeper) open() error {
	for i := range z.bells {
		if err := z.bells[i].open(); err != nil {
			return errors.Join(err, z.closeTo(i))
		}
		if err := z.beds[i].Open(z.bells[i].fd); err != nil {
			z.bells[i].close()
			return errors.Join(fmt.Errorf("shard: epoll: %w", err), z.closeTo(i))
		}
	}
	return nil
}

// close gives the descriptors back, when no waiter sleeps any more.
func (z *sleeper) close() {
	for z.seat.Load() == seatWaiter {
		z.ring(seatWaiter)
		sys.Step()
		runtime.Gosched()
	}
	if z.stop != nil {
		z.stop()
	}
	_ = z.closeTo(len(z.bells))
}

// closeTo closes the first n bells and beds.
func (z *sleeper) closeTo(n int) (err error) {
	for i := range n {
		err = errors.Join(err, z.beds[i].Close())
		z.bells[i].close()
	}
	return err
}

// standBy is a sleep of the helper's while others drive the shard: only wakeHelper ends
// it early. A long one is no system call: Go's runtime takes the processor away from a
// system call that lasts, and then looks every 20 us for others for a while, by a thread
// that interrupts the driver. Measured on two CPUs: that took half of the time of two
// processes that exchange 8 bytes. The few short ones at the beginning are a system
// call, since in a process that is otherwise idle Go's timers are not finer than 1 ms.
func (z *sleeper) standBy(d time.Duration) {
	if sys.Await(true, z.called) {
		return
	}
	if d < maxInterval {
		if sys.WaitEvent(z.bells[seatHelper].fd, d) {
			z.bells[seatHelper].drain()
			z.answer()
		}
		return
	}
	z.alarm.Reset(d)
	select {
	case <-z.alarm.C:
	case <-z.handover:
		z.alarm.Stop()
		z.bells[seatHelper].drain()
	}
}

// called reports whether wakeHelper was called.
func (z *sleeper) called() bool { return len(z.handover) > 0 }

// wakeHelper ends a sleep of either kind. Any goroutine may call it.
func (z *sleeper) wakeHelper() {
	sys.Step()
	z.ring(seatHelper)
	sys.Step()
	select {
	case z.handover <- struct{}{}:
	default:
	}
}

// parking says whether a goroutine sleeps for the shard, so that one that brings work
// knows whether to wake it. Any goroutine may use it.
type parking struct{ state atomic.Uint32 }

// States of parking.
const (
	awake  uint32 = iota
	asleep        // the goroutine that brings work makes it awake and rings the bell
	closed        // the goroutine that brings work cancels it
)

func (p *parking) isAwake() bool { return p.state.Load() == awake }

func (p *parking) isClosed() bool { return p.state.Load() == closed }

// announce says that the owner is about to sleep. Owner only.
func (p *parking) announce() {
	sys.Step()
	p.state.Store(asleep)
	sys.Step()
}

// end makes it awake, and reports whether it was asleep.
func (p *parking) end() bool {
	sys.Step()
	return p.state.CompareAndSwap(asleep, awake)
}

// close is the end of the shard. Owner only.
func (p *parking) close() { p.state.Store(closed) }

// eventFD is a descriptor that any goroutine may make readable, also while
// another one closes it.
type eventFD struct {
	fd     int // its readable end
	w      int // the other one, perhaps the same
	users  atomic.Int32
	closed atomic.Bool
}

func (e *eventFD) open() error {
	var err error
	if e.fd, e.w, err = sys.OpenEvent(); err != nil {
		return fmt.Errorf("shard: eventfd: %w", err)
	}
	return nil
}

// signal makes the descriptor readable. It reports false if it is closed.
func (e *eventFD) signal() bool {
	e.users.Add(1)
	defer e.users.Add(-1)
	if e.closed.Load() {
		return false
	}
	sys.SignalEvent(e.w)
	return true
}

// drain makes the descriptor unreadable again.
func (e *eventFD) drain() { sys.DrainEvent(e.fd) }

// seal makes further calls of signal fail and waits for those under way, so that
// none of them writes to a descriptor that has been opened anew.
func (e *eventFD) seal() {
	e.closed.Store(true)
	for e.users.Load() != 0 {
		runtime.Gosched()
	}
	if e.w != e.fd {
		_ = sys.CloseEvent(e.w)
	}
}

func (e *eventFD) close() {
	e.seal()
	_ = sys.CloseEvent(e.fd)
}
