package shard

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/clock"
)

// One goroutine per shard sleeps for it, in ppoll over an eventfd and the
// pollers' descriptors: the loop of a pinned or cooperative shard, the helper of
// a manual one. parked tells the others about that.
const (
	awake  uint32 = iota
	asleep        // whoever brings work makes it awake and rings the bell
	ended         // closed: whoever brings work cancels it
)

const (
	// early is how long before a timer a sleeper wakes, to be on time in spite of
	// the kernel's timer slack (50 us) and the way back from a system call.
	early = 60 * time.Microsecond
	// foreignNap is how often a sleeper looks at a clock that isn't the system's.
	foreignNap = time.Millisecond
	// keepRing is the ring size, in entries, that survives a sleep.
	keepRing = 4096
)

// sleeper is what the goroutine that sleeps needs for it.
type sleeper struct {
	fds  []int
	poll []unix.PollFd
	ts   unix.Timespec
}

// Wake makes the shard look at its pollers soon, if it sleeps. Any goroutine may
// call it.
func (s *Shard) Wake() {
	if s.parked.Load() != awake {
		s.rouse()
	}
}

// rouse ends a sleep, or, once the shard is closed, cancels what was posted.
func (s *Shard) rouse() {
	if s.parked.CompareAndSwap(asleep, awake) {
		s.stats.wakes.Add(1)
		s.bell.signal()
		return
	}
	if s.parked.Load() == ended {
		s.sweep()
	}
}

// sleep parks the calling goroutine, which owns the shard, until there is work.
// With release the shard is free to be adopted meanwhile, and the result says
// whether the caller got it back; without, the result is true.
func (s *Shard) sleep(release bool) bool {
	// Announce it first, then look: who brings work after the look sees asleep.
	s.parked.Store(asleep)
	timeout, ok := s.quiet()
	if !ok {
		s.parked.CompareAndSwap(asleep, awake)
		return true
	}
	s.stats.parks.Add(1)
	s.fuel = 0 // the clock goes on
	if release {
		s.yield()
	}
	s.pollFDs(timeout)
	s.parked.CompareAndSwap(asleep, awake)
	if release && !s.Adopt() {
		return false
	}
	s.fuel, s.idle = 0, 0
	return true
}

// quiet arms the pollers and reports whether there is nothing to do, and for how
// long: negative for ever. Owner only.
func (s *Shard) quiet() (time.Duration, bool) {
	if !s.arm() || s.closing.Load() {
		return 0, false
	}
	fds, ok := s.descriptors(s.sleeper.fds[:0])
	s.sleeper.fds = fds
	if !ok || !s.inbox.idle() || s.ring.len()+s.sys.len()+s.replay.len() > 0 {
		return 0, false
	}
	s.ring.trim(keepRing)
	s.replay.trim(keepRing)
	if s.wheel.next == never {
		return -1, true
	}
	if s.clock != clock.System {
		return foreignNap, true
	}
	s.readClock()
	left := s.wheel.next.Sub(s.now) - early
	return left, left > 0
}

// pollFDs waits for the bell, for the pollers' descriptors, or until the time is up;
// negative is for ever. A plain system call: the processor is free for other
// goroutines.
func (s *Shard) pollFDs(timeout time.Duration) {
	z := &s.sleeper
	z.poll = append(z.poll[:0], unix.PollFd{Fd: int32(s.bell.fd), Events: unix.POLLIN})
	for _, fd := range z.fds {
		z.poll = append(z.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	ts := &z.ts
	if timeout < 0 {
		ts = nil
	} else {
		*ts = unix.NsecToTimespec(int64(timeout))
	}
	n, err := unix.Ppoll(z.poll, ts, nil)
	if err == nil && n > 0 && z.poll[0].Revents != 0 {
		s.bell.drain()
		select {
		case <-s.handover:
		default:
		}
	}
}

// nap is a sleep of the helper's while others drive the shard: only callHelper ends
// it early. It is no system call: from one that lasts Go's runtime takes the
// processor away, and then looks every 20 us for others for a while, by a thread that
// interrupts whoever drives: on two CPUs half of the time of two processes that
// exchange 8 bytes went into that. But the few short naps with which it begins are one:
// in a process that is idle else, Go's timers are not finer than 1 ms.
func (s *Shard) nap(d time.Duration) {
	if d < maxNap {
		s.sleeper.fds = s.sleeper.fds[:0]
		s.pollFDs(d)
		return
	}
	s.alarm.Reset(d)
	select {
	case <-s.alarm.C:
	case <-s.handover:
		s.alarm.Stop()
		s.bell.drain()
	}
}

// callHelper ends the helper's sleep, of either kind. Any goroutine may call it.
func (s *Shard) callHelper() {
	s.bell.signal()
	select {
	case s.handover <- struct{}{}:
	default:
	}
}

// idled counts an idle turn and reports whether the shard has spun for long
// enough.
func (s *Shard) idled() bool {
	if s.idle++; s.idle <= justIdle {
		if s.idle == justIdle { // most waits are shorter
			s.readClock() // the last reading may be from before this thread lost its CPU
			s.idleSince = s.now
		}
		return false
	}
	if s.clock != clock.System {
		return s.idle > foreignSpins
	}
	return s.now.Sub(s.idleSince) >= s.spin
}

// justIdle is after how many idle turns the time of idleness begins.
const justIdle = 8

// foreignSpins is the idle turns before a park when the clock can't tell.
const foreignSpins = 1000
