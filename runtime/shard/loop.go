package shard

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// loop is the goroutine of a pinned shard that is lent to none.
func (s *Shard) loop() {
	for {
		n := s.idling.turn(s)
		switch {
		case s.closing.Load():
			s.life.shutdown()
			return
		case n > 0:
			s.idling.reset()
		case s.idling.longEnough(&s.clock):
			s.sleeper.park()
		default:
			s.idling.relaxPinned(&s.clock)
		}
	}
}

// maxInterval bounds the time between two looks of the helper at a shard that others
// drive, and so the time for which work may be left undone. Each look takes a processor
// from somebody for some 30 us, which is much for two processes that exchange messages
// as fast as they can; so a shard that was driven manyDrives times since the last look
// is left to its drivers for up to longInterval. When they stop, work is left undone
// for that long once.
const (
	maxInterval  = time.Millisecond
	longInterval = 8 * time.Millisecond
	manyDrives   = 512
)

// helper is the goroutine that looks after a lent shard when no other does. Its fields are
// its own.
type helper struct {
	s        *Shard
	seen     uint64        // Shard.drives at the last look
	interval time.Duration // until the next look
	most     time.Duration // bound of interval
}

func (h *helper) run() {
	s := h.s
	h.interval, h.most = s.grace, max(maxInterval, s.grace)
	for {
		if s.owner.acquire() {
			if s.closing.Load() {
				s.life.shutdown()
				return
			}
			h.look()
			if s.closing.Load() {
				continue
			}
		}
		s.sleeper.standBy(h.interval)
		h.interval = min(2*h.interval, h.most)
	}
}

// look serves the shard if it was left to the helper or not driven since the last look, rests if a waiter
// sleeps for the shard, and leaves it to its drivers otherwise. The caller owns the shard; look gives it up.
func (h *helper) look() {
	s := h.s
	switch {
	case s.sleeper.seat.Load() == seatWaiter:
		h.interval = s.grace
		if s.sleeper.rest() {
			h.serve()
		}
	case s.drives == h.seen:
		h.interval = s.grace
		h.serve()
	default:
		if h.most = max(maxInterval, s.grace); s.drives-h.seen >= manyDrives {
			h.most = max(longInterval, s.grace)
		}
		h.seen, h.interval = s.drives, min(h.interval, h.most)
		s.clock.expire() // so the time that drivers see is no older than an interval
		s.makeWay()
	}
}

// serve runs the shard until another goroutine may want it.
func (h *helper) serve() {
	s := h.s
	s.idling.reset()
	s.clock.expire()
	s.woke = false
	h.seen = s.drives
	for {
		n := s.idling.turn(s)
		switch {
		case s.woke || s.waiters.wanted.Load() != 0:
			// Let them run on this processor, now.
			s.makeWay()
			runtime.Gosched()
			return
		case s.drives != h.seen || s.closing.Load(): // driven while the helper rested
			h.seen = s.drives
			s.makeWay()
			return
		case n > 0:
			s.idling.busy(&s.clock)
		case !s.idling.longEnough(&s.clock):
			h.relax()
		case !s.sleeper.rest():
			return
		}
	}
}

func (h *helper) relax() {
	if h.s.mode == Pinned {
		h.s.idling.relaxPinned(&h.s.clock)
	} else if h.s.idling.relax(&h.s.clock) {
		runtime.Gosched()
	}
}

const (
	// idleTurns is the number of turns without work after which the shard counts as
	// idle. Most waits are shorter.
	idleTurns = 8
	// crowdedTurns is idleTurns for a shard that yields without spinning before.
	crowdedTurns = 2
	// otherClockSpins is the number of turns without work before a sleep on a shard
	// whose clock is not the system's and so cannot measure Config.Spin.
	otherClockSpins = 1000
)

// spinLooks is how often a turn of a shard that spins looks for work. The numbers of turns here
// are multiples of it, since each look counts as a turn.
const spinLooks = 4

// Turns without work after which other goroutines may have the processor. Go's runtime
// wakes a thread to look for more of them each time, perhaps on the CPU of the other
// side, so shards that have a processor each yield seldom. Measured: a system call to
// yield makes a ping-pong half as slow again.
const (
	yieldSoon = 16
	yieldLate = 256
)

// A CPU that was given to others and comes back after longYield was taken by a program that
// computes: sleeping costs less then, since the kernel prefers who wakes. So the next sleeps, as
// many as keepOff, come without.
const (
	longYield = 500 * time.Microsecond
	keepOff   = 64
)

// idling counts the turns without work in a row and decides when the shard sleeps.
// Owner only.
type idling struct {
	turns int
	since clock.Time
	spin  time.Duration // Config.Spin
	yield time.Duration // Config.Yield

	yields bool // Spin is over, and Yield is not
	off    int  // sleeps that are to come without yields

	long  int // gaps in a row that were longer than Spin
	skips int // waits that are to come without spinning
	rung  int // waits in a row before which the shard had woken a peer
}

// reset begins anew.
func (i *idling) reset() { i.turns, i.yields = 0, false }

// busy is reset, since there was work: it came while the shard span.
func (i *idling) busy(c *shardClock) {
	if i.turns > idleTurns && i.long > 0 && i.skips == 0 {
		i.long = 0
	}
	i.reset()
}

// tries is how many waits in a row may spin in vain. maxSkips bounds how many do not spin, then, before the next that tries.
const (
	tries    = 3
	maxSkips = 64
)

// woke begins anew after a sleep.
func (i *idling) woke(*shardClock) {
	if i.skips > 0 {
		i.skips--
	} else if i.long++; i.long >= tries {
		i.skips = min(4<<min(i.long-tries, 8), maxSkips)
	}
	i.reset()
}

// turn runs a turn of a shard that may be idle. The looks of one without work, but for the last,
// are counted as turns without work.
func (i *idling) turn(s *Shard) int {
	if i.yields || i.spin == 0 {
		return s.turn(1)
	}
	n := s.turn(spinLooks)
	if n == 0 {
		i.turns += spinLooks - 1
	}
	return n
}

// longEnough counts a turn without work and reports whether the shard has spun for
// long enough to sleep.
func (i *idling) longEnough(c *shardClock) bool {
	n := idleTurns
	if i.spin == 0 {
		n = crowdedTurns
	}
	if i.turns++; i.turns <= n {
		if i.turns == n {
			c.read() // the last reading may be from before this thread lost its CPU
			i.since = c.now
		}
		return false
	}
	if !c.isSystem() {
		return i.turns > otherClockSpins
	}
	spun := c.now.Sub(i.since)
	if spun < i.spin && i.skips == 0 {
		return false
	}
	if i.off > 0 {
		i.off--
		return true
	}
	i.yields = spun < i.spin+i.yield
	return !i.yields
}

// looked reports whether the shard has just looked a few times, and is about to spin.
func (i *idling) looked() bool { return i.turns == idleTurns }

// vain reports whether to spin now is in vain: the peer slept when the shard had something for it, again. Both would spin
// if the one that comes first were to spin a while longer, so the shard tries that, seldom.
func (i *idling) vain(rang bool) bool {
	if !rang {
		i.rung = 0
		return false
	}
	i.rung++
	return i.rung > tries && i.rung%maxSkips != 0
}

// relax passes the time between two turns without work. It reports whether other goroutines are to have the processor then.
func (i *idling) relax(c *shardClock) bool {
	i.wait(c)
	return i.turns%yieldSoon == 0 && (i.turns%yieldLate == 0 || oversubscribed())
}

// relaxPinned is relax on a pinned thread, which does not use the Go scheduler.
func (i *idling) relaxPinned(c *shardClock) {
	i.wait(c)
	if i.turns%64 == 0 {
		osYield()
	}
}

// wait waits a moment, or as long as others want the CPU.
func (i *idling) wait(c *shardClock) {
	if !i.yields {
		pause()
		return
	}
	before := c.now // read after the yield before this one, or when Spin began
	osYield()
	c.read()
	i.away(c.now.Sub(before))
}

// away notes for how long a yield took the CPU away.
func (i *idling) away(d time.Duration) {
	if d > longYield {
		i.off, i.yields = keepOff, false
	}
}

var (
	shards atomic.Int32 // shards of this process that have a goroutine
	procs  atomic.Int32 // GOMAXPROCS, as the newest of them found it
)

// oversubscribed reports whether all processors may be busy with shards.
func oversubscribed() bool { return shards.Load() >= procs.Load() }

// countShard counts a shard with a goroutine of its own.
func countShard() {
	_, n := cores()
	procs.Store(int32(n))
	shards.Add(1)
}

func uncountShard() { shards.Add(-1) }
