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
	// otherClockSpins is the number of turns without work before a sleep on a shard
	// whose clock is not the system's and so cannot measure Config.Spin.
	otherClockSpins = 1000
)

// Turns without work after which other goroutines may have the processor. Go's runtime
// wakes a thread to look for more of them each time, perhaps on the CPU of the other
// side, so shards that have a processor each yield seldom. Measured: a system call to
// yield makes a ping-pong half as slow again.
const (
	yieldSoon = 16
	yieldLate = 256
)

// idling counts the turns without work in a row and decides when the shard sleeps.
// Owner only.
type idling struct {
	turns int
	since clock.Time
	spin  time.Duration // Config.Spin
}

// reset begins anew: there was work.
func (i *idling) reset() { i.turns = 0 }

// longEnough counts a turn without work and reports whether the shard has spun for
// long enough to sleep.
func (i *idling) longEnough(c *shardClock) bool {
	if i.turns++; i.turns <= idleTurns {
		if i.turns == idleTurns {
			c.read() // the last reading may be from before this thread lost its CPU
			i.since = c.now
		}
		return false
	}
	if !c.isSystem() {
		return i.turns > otherClockSpins
	}
	return c.now.Sub(i.since) >= i.spin
}

// relax passes the time between two turns without work.
func (i *idling) relax() {
	pause()
	if i.turns%yieldSoon == 0 && (i.turns%yieldLate == 0 || oversubscribed()) {
		runtime.Gosched()
	}
}

// relaxPinned is relax on a pinned thread, which does not use the Go scheduler.
func (i *idling) relaxPinned() {
	pause()
	if i.turns%64 == 0 {
		osYield()
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
