package shard

// Tell sends m to an actor by the Ref lane. On the shard of that actor it is a
// push on the FIFO ring; anywhere else it goes through that shard's inbox, as
// with Post. A message to the zero Ref is canceled.
func (s *Shard) Tell(to Ref, m Msg) {
	if to.m == nil {
		s.faults.cancel(m)
		return
	}
	if t := to.m.s; t.owner.isCallerFast() {
		t.delivery.ring.push(to.m, m, laneRef)
	} else {
		t.remote(to.m, m, laneRef)
	}
}

// Post sends m to an actor from any goroutine and wakes its shard if it sleeps.
// It never blocks. What one goroutine tells and posts arrives in that order.
func (s *Shard) Post(to Ref, m Msg) { s.Tell(to, m) }

// remote files a message from a goroutine that does not own the shard.
func (s *Shard) remote(m *mailbox, msg any, l lane) {
	s.inbox.push(m, msg, l)
	if !s.parking.isAwake() {
		s.sleeper.wake()
	}
}
