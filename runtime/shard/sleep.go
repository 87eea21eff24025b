package shard

import (
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
	// keepRing is the ring size, in entries, that survives a sleep.
	keepRing = 4096
)

// sleeper puts the goroutine to sleep that sleeps for the shard, in ppoll over an
// eventfd and the pollers' descriptors: the loop of a pinned or cooperative shard, the
// helper of a manual one. That goroutine uses it; wake and wakeHelper may be called by
// any.
type sleeper struct {
	s            *Shard
	bell         eventFD
	handover     chan struct{} // wakes the helper in standBy
	alarm        *time.Timer   // of standBy
	fds          []int         // of the pollers, as sleep found them
	poll         []sys.PollFd  // argument of ppoll
	ts           sys.Timespec  // argument of ppoll
	parks, wakes atomic.Uint64
}

func (z *sleeper) init(s *Shard) {
	z.s = s
	z.handover = make(chan struct{}, 1)
	z.alarm = clock.NewTimer(time.Hour)
	z.alarm.Stop()
}

// wake ends a sleep, or, once the shard is closed, cancels what was posted.
func (z *sleeper) wake() {
	s := z.s
	if s.parking.end() {
		z.wakes.Add(1)
		z.bell.signal()
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
	// Announce it first, then look: a goroutine that brings work after the look sees
	// the announcement.
	s.parking.announce()
	timeout, ok := z.ready()
	if !ok {
		s.parking.end()
		return true
	}
	z.parks.Add(1)
	s.clock.expire() // time goes on
	if release {
		s.makeWay()
	}
	z.wait(timeout)
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

// wait waits for the bell, for the pollers' descriptors, or until the time is up; a
// negative time is without limit. It is a plain system call: the processor is free for
// other goroutines.
func (z *sleeper) wait(timeout time.Duration) {
	z.poll = append(z.poll[:0], sys.PollFd{Fd: int32(z.bell.fd), Events: sys.POLLIN})
	for _, fd := range z.fds {
		z.poll = append(z.poll, sys.PollFd{Fd: int32(fd), Events: sys.POLLIN})
	}
	ts := &z.ts
	if timeout < 0 {
		ts = nil
	} else {
		*ts = sys.NsecToTimespec(int64(timeout))
	}
	n, err := sys.Ppoll(z.poll, ts)
	if err == nil && n > 0 && z.poll[0].Revents != 0 {
		z.bell.drain()
		select {
		case <-z.handover:
		default:
		}
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
		z.fds = z.fds[:0]
		z.wait(d)
		return
	}
	z.alarm.Reset(d)
	select {
	case <-z.alarm.C:
	case <-z.handover:
		z.alarm.Stop()
		z.bell.drain()
	}
}

// wakeHelper ends a sleep of either kind. Any goroutine may call it.
func (z *sleeper) wakeHelper() {
	z.bell.signal()
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
