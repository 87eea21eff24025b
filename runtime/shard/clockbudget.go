package shard

import (
	"math"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// The system's clock costs as much as five hops, so it is not read in each busy turn.
// A reading sets the clock budget; each turn and each message spends a part of it, and
// the first turn that finds it spent reads the clock again.
const (
	systemBudget = 256 // of one reading of the system's clock
	turnCost     = 8
	adoptCost    = 32 // of a new owner: time has passed since the last owner's reading
)

// shardClock is the shard's time: one reading of a clock that serves several turns.
// Owner only.
type shardClock struct {
	now    clock.Time
	left   int  // clock budget; at 0 and below the next turn reads the clock
	fresh  bool // now was read in this turn
	budget int  // of one reading; 0 for a clock that every turn reads
	source clock.Clock
}

func newShardClock(source clock.Clock) shardClock {
	c := shardClock{source: source}
	if source == clock.System {
		c.budget = systemBudget
	}
	c.read()
	return c
}

func (c *shardClock) isSystem() bool { return c.budget != 0 }

// read takes the time and renews the budget. It is not inlined: few turns call it.
//
//go:noinline
func (c *shardClock) read() {
	c.now = c.source.Now()
	c.left, c.fresh = c.budget, true
}

// spend takes cost from the budget.
func (c *shardClock) spend(cost int) { c.left -= cost }

// expire makes the next turn read the clock.
func (c *shardClock) expire() { c.left = 0 }

// deadline returns the time in d from a reading made now; an old reading would make
// it early.
func (c *shardClock) deadline(d time.Duration) clock.Time {
	c.read()
	if int64(d) >= math.MaxInt64-int64(max(c.now, 0)) {
		return clock.Time(math.MaxInt64)
	}
	return c.now.Add(max(d, 0))
}

// Now returns the shard's time, which is read every few turns. Shard only.
func (s *Shard) Now() clock.Time { return s.clock.now }

// TurnTime is Now, but read in this turn: for records of when something happened.
// Shard only.
func (s *Shard) TurnTime() clock.Time {
	if !s.clock.fresh {
		s.clock.read()
	}
	return s.clock.now
}
