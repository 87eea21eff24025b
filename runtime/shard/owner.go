package shard

import "sync/atomic"

// owner names the goroutine that runs the shard. It is also the lock: the goroutine
// that sets it from 0 may use everything that belongs to the owner. Any goroutine may
// read it; only the owner clears it.
type owner struct{ g atomic.Uintptr }

// isCaller reports whether the calling goroutine owns the shard.
func (o *owner) isCaller() bool { return o.g.Load() == getg() }

// isCallerFast is isCaller where that is cheap. Elsewhere it is false: every
// goroutine counts as a remote one.
func (o *owner) isCallerFast() bool { return fastG && o.g.Load() == getg() }

// free reports whether no goroutine owns the shard.
func (o *owner) free() bool { return o.g.Load() == 0 }

// take makes the calling goroutine the owner if there is none.
func (o *owner) take() bool { return o.g.Load() == 0 && o.g.CompareAndSwap(0, getg()) }

// set makes the calling goroutine the owner of a shard that nobody else can own.
func (o *owner) set() { o.g.Store(getg()) }

// drop ends the ownership. Owner only.
func (o *owner) drop() { o.g.Store(0) }

// OnShard reports whether the calling goroutine owns the shard.
func (s *Shard) OnShard() bool { return s.owner.isCaller() }

// Adopt makes the calling goroutine the owner, which may call Turn and all that is
// marked "shard only". It reports false if there is an owner already; cooperative shards,
// and pinned ones that are not lent, always have theirs.
func (s *Shard) Adopt() bool { return s.owner.take() }

// Release gives up what Adopt took. On a manual shard a parked waiter, or the
// helper, takes over.
func (s *Shard) Release() {
	s.owner.drop()
	if s.waiters.parked.Load()|s.parking.state.Load() != 0 {
		s.handOver()
	}
}
