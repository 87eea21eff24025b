package shard

// Serve runs a turn of a manual shard in which p alone is polled, if nobody is at it:
// for a goroutine that has just given p something to do and shall not wait for the
// next turn. A panic in p is a failure of the actor as. On shards of other modes, and
// on one that the caller owns, it does nothing. It is no driving: what follows is left
// to the helper if nobody waits.
func (s *Shard) Serve(as Ref, p Poller) {
	if s.mode != Manual || s.external || !s.Adopt() {
		return
	}
	s.fuel -= adoptFuel // time has passed since the last owner's reading
	if !s.over {
		s.guest.m, s.guest.p = as.m, p
		s.turn(phasePoll, s.guests[:])
	}
	s.Release()
}
