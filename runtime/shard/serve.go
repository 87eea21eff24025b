package shard

import "context"

// Serve runs a turn of a manual shard in which p alone is polled, if nobody is at it:
// for a goroutine that has just given p something to do and shall not wait for the
// next turn. A panic in p is a failure of the actor as. On shards of other modes, and
// on one that the caller owns, it does nothing. It is no driving: what follows is left
// to the helper if nobody waits.
func (s *Shard) Serve(as Ref, p Poller) {
	if s.Enter() {
		s.ServeEntered(as, p)
		s.Release()
	}
}

// Enter adopts a manual shard for a goroutine that has something to do there: false if
// somebody is at it, it is closing, or it is of another mode. ServeEntered may come
// then, and Stay or Release in the end.
func (s *Shard) Enter() bool {
	return s.mode == Manual && !s.external && s.waiter == nil && !s.closing.Load() && s.Adopt()
}

// ServeEntered is Serve on a shard that was entered.
func (s *Shard) ServeEntered(as Ref, p Poller) {
	if s.fuel -= adoptFuel; s.fuel <= 0 { // time has passed since the last owner's reading
		s.readClock()
	}
	if s.over || as.m.suspended {
		return
	}
	n, ok := s.pollGuest(as, p)
	if !ok || n > 0 || !s.Quiet() {
		s.turn(phaseDeliver, n)
	}
}

// pollGuest polls p alone. false: it has panicked.
func (s *Shard) pollGuest(as Ref, p Poller) (n int, ok bool) {
	s.turning, s.fresh, s.phase = true, false, phasePoll
	defer s.rescueStep()
	s.cur, s.curMsg = as.m, nil
	n = p.Poll(s)
	s.phase, s.turning = phaseOver, false
	return n, true
}

// Stay is Wait for who has entered the shard, which it leaves.
func (s *Shard) Stay(ctx context.Context, sig *Signal) error { return s.waitManual(ctx, sig, true) }
