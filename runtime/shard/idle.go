package shard

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

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
}

// reset begins anew: there was work.
func (i *idling) reset() { i.turns, i.yields = 0, false }

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
	if spun < i.spin {
		return false
	}
	if i.off > 0 {
		i.off--
		return true
	}
	i.yields = spun < i.spin+i.yield
	return !i.yields
}

// relax passes the time between two turns without work.
func (i *idling) relax(c *shardClock) {
	i.wait(c)
	if i.turns%yieldSoon == 0 && (i.turns%yieldLate == 0 || oversubscribed()) {
		runtime.Gosched()
	}
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
