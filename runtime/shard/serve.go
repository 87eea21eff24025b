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
	s.fuel -= adoptFuel // time has passed since the last owner's reading
	if !s.over {
		s.guest.m, s.guest.p = as.m, p
		s.turn(phasePoll, s.guests[:])
	}
}

// Stay is Wait for who has entered the shard, which it leaves.
func (s *Shard) Stay(ctx context.Context, sig *Signal) error { return s.waitManual(ctx, sig, true) }
