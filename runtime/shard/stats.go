package shard

// Stats counts what is rare. Snapshot it from any goroutine.
type Stats struct {
	Canceled uint64 // messages dropped because their actor was gone
	Failures uint64 // panics of actors and pollers
	Parks    uint64 // times the shard went to sleep
	Wakes    uint64 // times another goroutine had to ring to end that
}

// Stats returns the counters as they are now.
func (s *Shard) Stats() Stats {
	return Stats{
		Canceled: s.faults.canceled.Load(),
		Failures: s.faults.failures.Load(),
		Parks:    s.sleeper.parks.Load(),
		Wakes:    s.sleeper.wakes.Load(),
	}
}
