package shard

import "runtime"

// loop is the goroutine that owns a pinned or cooperative shard.
type loop struct {
	s      *Shard
	pinned bool
}

func (l *loop) run() {
	s := l.s
	for i := 1; ; i++ {
		n := s.idling.turn(s)
		switch {
		case s.closing.Load():
			s.life.shutdown()
			return
		case n > 0:
			s.idling.reset()
			if !l.pinned && i%64 == 0 {
				runtime.Gosched()
			}
		case s.idling.longEnough(&s.clock):
			s.sleeper.sleep(false)
		case l.pinned:
			s.idling.relaxPinned(&s.clock)
		default:
			s.idling.relax(&s.clock)
		}
	}
}
