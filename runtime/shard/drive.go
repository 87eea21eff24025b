package shard

// Drive runs one turn of a manual shard, if nobody else is at it, and returns how
// much was done: progress for a goroutine that polls instead of waiting. If the
// helper has the shard it is asked to make way, so the next call may get it. On
// shards of other modes, and on one that the caller owns, it does nothing.
func (s *Shard) Drive() int {
	if s.mode != Manual || s.external || s.OnShard() {
		return 0
	}
	if !s.Adopt() {
		s.wanted.Store(1)
		return 0
	}
	s.drives++
	s.fuel -= adoptFuel // time has passed since the last owner's reading
	n := s.Turn()
	s.Release()
	return n
}
