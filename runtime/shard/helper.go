package shard

import (
	"runtime"
)

// help is the goroutine that looks after a manual shard when nobody waits.
func (s *Shard) help() {
	var seen uint64
	nap, most := s.grace, max(maxNap, s.grace)
	for {
		if s.Adopt() {
			if s.closing.Load() {
				s.shutdown()
				return
			}
			if most = max(maxNap, s.grace); s.drives-seen >= often {
				most = max(longNap, s.grace)
			}
			handed := s.handed.Swap(0) != 0
			if handed || s.drives == seen {
				nap = s.grace
				seen = s.attend()
				if s.closing.Load() {
					continue
				}
			} else {
				seen, nap = s.drives, min(nap, most)
				s.fuel = 0 // so the time that drivers see is no older than a nap
				s.yield()
			}
		}
		s.nap(nap)
		nap = min(2*nap, most)
	}
}

// attend runs the shard until somebody else may want it. It returns how often
// the shard had been driven by then.
func (s *Shard) attend() (seen uint64) {
	s.idle = 0
	s.fuel = 0
	s.woke = false
	for {
		seen = s.drives
		n := s.Turn()
		switch {
		case s.closing.Load():
			s.yield()
			return seen
		case s.woke || s.wanted.Load() != 0:
			// Let them run on this processor, now.
			s.yield()
			runtime.Gosched()
			return seen
		case n > 0:
			s.idle = 0
		case !s.idled():
			s.relax()
		case !s.sleep(true):
			return seen
		case s.drives != seen && s.handed.Swap(0) == 0:
			// Driven while we slept, and left: perhaps only for a moment.
			seen = s.drives
			s.yield()
			return seen
		}
	}
}

// loop is the goroutine of a pinned or cooperative shard.
func (s *Shard) loop() {
	pinned := s.mode == Pinned
	for i := 1; ; i++ {
		n := s.Turn()
		switch {
		case s.closing.Load():
			s.shutdown()
			return
		case n > 0:
			s.idle = 0
			if !pinned && i%64 == 0 {
				runtime.Gosched()
			}
		case s.idled():
			s.sleep(false)
		case pinned:
			pause()
			if s.idle%64 == 0 {
				osYield()
			}
		default:
			s.relax()
		}
	}
}

// start runs the goroutine that the mode asks for. It returns when that owns the
// shard, or for a manual one, exists.
func (s *Shard) start() error {
	if s.external {
		return nil
	}
	ready := make(chan error, 1)
	joinCrowd()
	s.running.Go(func() {
		defer leaveCrowd()
		switch s.mode {
		case Manual:
			ready <- nil
			s.help()
			return
		case Pinned:
			// Not unlocked: the thread ends with the goroutine, and so its affinity.
			runtime.LockOSThread()
			if err := pin(s.pinCPU); err != nil {
				ready <- err
				return
			}
		case Auto, Cooperative:
		}
		s.g.Store(getg())
		ready <- nil
		s.loop()
	})
	if err := <-ready; err != nil {
		return err
	}
	if s.notifier != nil {
		s.running.Go(s.notifier.run)
	}
	return nil
}
