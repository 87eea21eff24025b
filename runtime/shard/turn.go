package shard

// Phases of a turn. A panic ends the phase's present step; the turn then goes on.
const (
	phaseFirst = iota
	phaseInbox
	phasePoll
	phaseDeliver
	phaseFlush
	phaseTimers
	phaseOver
)

// scheduler is the state of the present turn, which outlives a panic in it. Owner
// only.
type scheduler struct {
	phase  int
	then   int     // the phase after phaseFirst
	work   int     // of this turn, besides its messages
	first  *Polled // is polled in phaseFirst, and not again in this turn; nil: none is
	inTurn bool    // a turn is running
	over   bool    // past the last turn
}

// Turn runs the shard once: drain the inbox, poll, deliver messages, and if
// anything happened let the pollers flush; then timers. It returns how much was
// done, 0 if there was nothing to do. Owner only, and never from inside a turn.
func (s *Shard) Turn() int {
	if s.sched.over {
		return 0
	}
	n := s.turn(nil, phaseInbox)
	if s.external && s.closing.Load() && !s.life.ending {
		s.life.shutdown()
	}
	return n
}

// turn polls first unless that is nil, then runs the phases of a turn from one on.
func (s *Shard) turn(first *Polled, then int) int {
	c := &s.sched
	c.inTurn, s.clock.fresh = true, false
	s.clock.readIfSpent()
	c.phase, c.then, c.first, c.work, s.delivery.ran = phaseFirst, then, first, 0, 0
	s.pollers.begin()
	n := s.step()
	for n < 0 {
		n = s.step()
	}
	return n
}

// step runs the phases that are left and ends the turn, whose work it returns: -1 when a
// panic cut it short. Then the actor at work has failed: protoactor suspends it and asks its
// supervisor.
func (s *Shard) step() (n int) {
	c, d := &s.sched, &s.delivery
	n = -1
	defer func() { // once for all messages and polls
		if c.phase != phaseOver { // else recover need not be called
			s.rescue(recover())
		}
	}()
	if c.phase == phaseFirst {
		c.phase = c.then
		if e := c.first; e != nil && !*e.off {
			d.stack.cur = e.m
			c.work += e.p.Poll(s)
		}
	}
	if c.phase == phaseInbox {
		c.phase = phasePoll
		if !s.inbox.idle() {
			c.work += d.drain(maxInbox)
		}
	}
	if c.phase == phasePoll {
		for {
			e := s.pollers.next()
			if e == nil {
				break
			}
			if e != c.first {
				d.stack.cur = e.m
				c.work += e.p.Poll(s)
			}
		}
		c.phase = phaseDeliver
	}
	if c.phase == phaseDeliver {
		if !fastG || !d.empty() { // without a cheap getg messages are in the inbox
			d.run()
		}
		c.phase = phaseFlush
		s.pollers.begin()
	}
	if c.phase == phaseFlush {
		if c.work+d.ran > 0 {
			for {
				e := s.pollers.next()
				if e == nil {
					break
				}
				d.stack.cur = e.m
				e.p.Flush(s)
			}
		}
		c.phase = phaseTimers
	}
	if s.clock.now >= s.wheel.next {
		c.work += s.wheel.fire(s.clock.now, d)
	}
	n = c.work + d.ran
	d.delivered += uint64(d.ran)
	s.clock.spend(turnCost + n)
	d.stack.cur, c.inTurn, c.phase = nil, false, phaseOver
	return n
}
