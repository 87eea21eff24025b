package shard

// Phases of a turn. A panic ends the phase's present step; the turn then goes on.
const (
	phaseInbox = iota
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
	work   int  // of this turn, besides its messages
	ahead  int  // work of the next turn that pollAlone has done
	inTurn bool // a turn is running
	over   bool // past the last turn
}

// Turn runs the shard once: drain the inbox, poll, deliver messages, and if
// anything happened let the pollers flush; then timers. It returns how much was
// done, 0 if there was nothing to do. Owner only, and never from inside a turn.
func (s *Shard) Turn() int {
	if s.sched.over {
		return 0
	}
	return s.sched.turn(s, phaseInbox, s.sched.takeAhead())
}

// turn runs the turn of s from a phase on; the caller has done some work of it.
func (c *scheduler) turn(s *Shard, from, work int) int {
	d := &s.delivery
	c.inTurn, s.clock.fresh = true, false
	s.clock.readIfSpent()
	c.phase, d.ran, c.work = from, 0, work
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
	if c.phase == phaseInbox {
		c.phase = phasePoll
		c.work += s.delivery.drain(maxInbox)
	}
	if c.phase == phasePoll {
		s.pollers.poll(s)
		c.phase = phaseDeliver
	}
	if c.phase == phaseDeliver {
		s.delivery.run()
		c.phase = phaseFlush
		s.pollers.begin()
	}
	if c.phase == phaseFlush {
		if c.work+s.delivery.ran > 0 {
			s.pollers.flush(s)
		}
		c.phase = phaseTimers
	}
	if s.clock.now >= s.wheel.next {
		c.work += s.wheel.fire(s.clock.now, &s.delivery)
	}
	c.phase = phaseOver
	return true
}

// takeAhead returns the work of this turn that pollAlone has done.
func (c *scheduler) takeAhead() int {
	n := c.ahead
	c.ahead = 0
	return n
}
