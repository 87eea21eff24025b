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
	work   int     // of this turn, besides its messages
	first  *Polled // is polled in phaseFirst, and not again in this turn
	then   int     // the phase after that
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
	s.sched.first = nil
	return s.sched.turn(s, phaseInbox)
}

// turnFrom is a turn that polls p, and then goes on from a phase.
func (c *scheduler) turnFrom(s *Shard, p *Polled, then int) {
	if c.over {
		return
	}
	s.clock.spend(adoptCost)
	c.first, c.then = p, then
	c.turn(s, phaseFirst)
}

// turn runs the turn of s from a phase on.
func (c *scheduler) turn(s *Shard, from int) int {
	d := &s.delivery
	c.inTurn, s.clock.fresh = true, false
	s.clock.readIfSpent()
	c.phase, d.ran, c.work = from, 0, 0
	s.pollers.begin()
	for !c.step(s) {
	}
	n := c.work + d.ran
	d.delivered += uint64(d.ran)
	s.clock.spend(turnCost + n)
	d.stack.cur, c.inTurn = nil, false
	if s.external && s.closing.Load() && !s.life.ending {
		s.life.shutdown()
	}
	return n
}

// step runs the phases that are left, and reports false when a panic cut it short.
func (c *scheduler) step(s *Shard) (done bool) {
	defer s.rescueStep()
	d := &s.delivery
	if c.phase == phaseFirst {
		c.phase = c.then
		if p := c.first; !p.skip() {
			d.stack.set(p.m)
			c.work += p.p.Poll(s)
		}
	}
	if c.phase == phaseInbox {
		c.phase = phasePoll
		if !s.inbox.idle() {
			c.work += d.drain(maxInbox)
		}
	}
	if c.phase == phasePoll {
		s.pollers.poll(s, c.first)
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
			s.pollers.flush(s)
		}
		c.phase = phaseTimers
	}
	if s.clock.now >= s.wheel.next {
		c.work += s.wheel.fire(s.clock.now, d)
	}
	c.phase = phaseOver
	return true
}
