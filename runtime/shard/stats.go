package shard

import "sync/atomic"

// Stats counts what is rare. Snapshot it from any goroutine.
type Stats struct {
	Canceled uint64 // messages dropped because their actor was gone
	Failures uint64 // panics of actors and pollers
	Parks    uint64 // times the shard went to sleep
	Wakes    uint64 // times another goroutine had to ring to end that
}

type stats struct{ canceled, failures, parks, wakes atomic.Uint64 }

// Stats returns the counters as they are now.
func (s *Shard) Stats() Stats {
	return Stats{
		Canceled: s.stats.canceled.Load(),
		Failures: s.stats.failures.Load(),
		Parks:    s.stats.parks.Load(),
		Wakes:    s.stats.wakes.Load(),
	}
}
