package shard

import "sync/atomic"

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
