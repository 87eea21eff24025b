package shard

import (
	"runtime"
	"sync/atomic"
)

// Idle turns after which other goroutines may have the processor. Go's runtime wakes
// a thread to look for more of them each time, on the other side's CPU perhaps, so
// shards that have a processor each are slow to ask. It was measured that a system
// call to yield costs a ping-pong half as much again.
const (
	yieldSoon = 16
	yieldLate = 256
)

// relax passes the time of an idle turn.
func (s *Shard) relax() {
	pause()
	if s.idle%yieldSoon == 0 && (s.idle%yieldLate == 0 || crowded()) {
		runtime.Gosched()
	}
}

var (
	shards atomic.Int32 // of this process
	procs  atomic.Int32 // GOMAXPROCS, as the newest of them found it
)

// crowded tells whether all processors may be busy with shards.
func crowded() bool { return shards.Load() >= procs.Load() }

// joinCrowd counts a shard with a goroutine of its own.
func joinCrowd() {
	_, n := cores()
	procs.Store(int32(n))
	shards.Add(1)
}

func leaveCrowd() { shards.Add(-1) }
