package shard

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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
	// keepRing is the ring size, in entries, that survives a sleep.
	keepRing = 4096
)

// sleeper puts the goroutine to sleep that sleeps for the shard, in ppoll over an
// eventfd and the pollers' descriptors: a waiter of a lent shard
// or its helper, or the loop of one that is not lent. That goroutine uses it; wake and wakeHelper may be called by
// any.
type sleeper struct {
	s         *Shard
	seat      atomic.Uint32 // who sleeps for the shard
	helperOff atomic.Bool   // the helper waits to be called, without a time limit
	handover  chan struct{} // wakes the helper in standBy and standOff
	alarm     *time.Timer   // of standBy

	// Of the shard's owner.
	fds, now []int      // of the pollers, as the one in the seat found them, and as they are
	until    clock.Time // when the one in the seat wakes for a timer, at the latest; 0: not

	bells  [2]eventFD // of the helper, or the shard's loop, and of a waiter in the seat
	beds   [2]bed
	cancel <-chan struct{} // Done of the context that rings for the waiter in the seat; theirs
	stop   func() bool

	parks, wakes atomic.Uint64
}

// bed is what a sleeping goroutine gives to ppoll.
type bed struct {
	poll []sys.PollFd
	ts   sys.Timespec
	ever bool // there is no time limit
}

// Who has the seat. The owner of the shard takes it; who has it gives it back, but the helper loses it
// to a waiter.
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
		if at := z.seat.Load(); at != seatFree {
			z.ring(at)
		}
		return
	}
	if s.parking.isClosed() {
		s.inbox.cancelAll(&s.faults)
	}
}

// sleep parks the calling goroutine, which owns the shard, until there is work.
// With release the shard is free to be adopted meanwhile, and the result says
// whether the caller got it back; without, the result is true.
func (z *sleeper) sleep(release bool) bool {
	s := z.s
	if !z.seat.CompareAndSwap(seatFree, seatHelper) {
		s.makeWay()
		return false // a waiter sleeps for the shard
	}
	// Announce it first, then look: a goroutine that brings work after the look sees
	// the announcement.
	s.parking.announce()
	timeout, ok := z.ready()
	if !ok {
		s.parking.end()
		z.rise()
		return true
	}
	z.prepare(seatHelper, timeout)
	z.parks.Add(1)
	s.clock.expire() // time goes on
	if release {
		s.makeWay()
	}
	z.wait(seatHelper)
	if !z.seat.CompareAndSwap(seatHelper, seatFree) {
		return false // moved off
	}
	s.parking.end()
	if release && !s.owner.acquire() {
		return false
	}
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
	if s.wheel.next == never {
		return -1, true
	}
	if !s.clock.isSystem() {
		return otherClockPeriod, true
	}
	s.clock.read()
	left := s.wheel.next.Sub(s.clock.now) - early
	return left, left > 0
}

// sit takes the seat for a waiter who owns the shard, from the helper as well. It reports false if
// another waiter has it.
func (z *sleeper) sit() bool {
	switch {
	case z.seat.CompareAndSwap(seatFree, seatWaiter):
	case z.seat.CompareAndSwap(seatHelper, seatWaiter):
		z.ring(seatHelper)
	default:
		return false
	}
	return true
}

// rise gives the seat back.
func (z *sleeper) rise() { z.seat.Store(seatFree) }

// mayGoOn reports whether the goroutine in the seat may go on to sleep, although the shard was driven meanwhile:
// there is nothing to do, and nothing that it does not wait for. Owner only.
func (z *sleeper) mayGoOn() bool {
	s := z.s
	s.parking.announce()
	slept := z.fds
	z.fds = z.now
	timeout, ok := z.ready()
	z.fds, z.now = slept, z.fds
	if !ok || !slices.Equal(z.fds, z.now) {
		return false
	}
	return timeout < 0 || z.until != 0 && s.clock.now.Add(timeout) >= z.until
}

// follow has the end of ctx wake the waiter in the seat, who owns the shard.
func (z *sleeper) follow(ctx context.Context) {
	done := ctx.Done()
	if done == nil || done == z.cancel {
		return
	}
	if z.stop != nil {
		z.stop()
	}
	z.cancel, z.stop = done, context.AfterFunc(ctx, func() { z.ring(seatWaiter) })
}

// prepare makes up a bed for wait. Owner only.
func (z *sleeper) prepare(who uint32, timeout time.Duration) {
	b := &z.beds[who]
	b.poll = append(b.poll[:0], sys.PollFd{Fd: int32(z.bells[who].fd), Events: sys.POLLIN})
	for _, fd := range z.fds {
		b.poll = append(b.poll, sys.PollFd{Fd: int32(fd), Events: sys.POLLIN})
	}
	b.ever, z.until = timeout < 0, 0
	if !b.ever {
		b.ts = sys.NsecToTimespec(int64(timeout))
		z.until = z.s.clock.now.Add(timeout)
	}
}

// wait waits for the bell, for the pollers' descriptors, or until the time is up. It is a plain
// system call: the processor is free for other goroutines.
func (z *sleeper) wait(who uint32) {
	b := &z.beds[who]
	ts := &b.ts
	if b.ever {
		ts = nil
	}
	n, err := sys.Ppoll(b.poll, ts)
	if err == nil && n > 0 && b.poll[0].Revents != 0 {
		z.bells[who].drain()
		if who == seatHelper {
			select {
			case <-z.handover:
			default:
			}
		}
	}
}

// ring wakes who has the seat, or is about to sleep in it.
func (z *sleeper) ring(who uint32) { z.bells[who].signal() }

func (z *sleeper) open() error {
	for i := range z.bells {
		if err := z.bells[i].open(); err != nil {
			if i > 0 {
				z.bells[0].close()
			}
			return err
		}
	}
	return nil
}

// close gives the descriptors back, when no waiter sleeps any more.
func (z *sleeper) close() {
	for z.seat.Load() == seatWaiter {
		z.ring(seatWaiter)
		osYield()
	}
	if z.stop != nil {
		z.stop()
	}
	for i := range z.bells {
		z.bells[i].close()
	}
}

// standBy is a sleep of the helper's while others drive the shard: only wakeHelper ends
// it early. A long one is no system call: Go's runtime takes the processor away from a
// system call that lasts, and then looks every 20 us for others for a while, by a thread
// that interrupts the driver. Measured on two CPUs: that took half of the time of two
// processes that exchange 8 bytes. The few short ones at the beginning are a system
// call, since in a process that is otherwise idle Go's timers are not finer than 1 ms.
func (z *sleeper) standBy(d time.Duration) {
	if d < maxInterval {
		b := &z.beds[seatHelper]
		b.poll = append(b.poll[:0], sys.PollFd{Fd: int32(z.bells[seatHelper].fd), Events: sys.POLLIN})
		b.ts, b.ever = sys.NsecToTimespec(int64(d)), false
		z.wait(seatHelper)
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

// standOff waits to be called, since a waiter sleeps for the shard.
func (z *sleeper) standOff() {
	<-z.handover
	z.helperOff.Store(false)
	z.bells[seatHelper].drain()
}

// wakeHelper ends a sleep of either kind. Any goroutine may call it.
func (z *sleeper) wakeHelper() {
	z.ring(seatHelper)
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
func (p *parking) announce() { p.state.Store(asleep) }

// end makes it awake, and reports whether it was asleep.
func (p *parking) end() bool { return p.state.CompareAndSwap(asleep, awake) }

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
