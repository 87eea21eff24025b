package shard

// Phases of a turn. A panic ends the phase's present step; the turn then goes on with the next.
const (
	phaseOver = iota // no turn is under way
	phaseInbox
	phasePoll
	phaseDeliver
	phaseFlush
	phaseTimers
)

// scheduler is the state of the present turn, which outlives a panic in it. Owner
// only.
type scheduler struct {
	phase int  // the one with which the turn goes on after a panic
	work  int  // of this turn, besides its messages
	over  bool // past the last turn
}

// inTurn reports whether a turn is running.
func (c *scheduler) inTurn() bool { return c.phase != phaseOver }

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

// turn polls first unless that is nil, then runs the phases of a turn from phase on. The turn
// does not poll first again.
func (s *Shard) turn(first *Polled, phase int) int {
	n := step(s, first, phase)
	for n < 0 {
		n = step(s, first, s.sched.phase)
	}
	return n
}

// step begins a turn if none is under way, runs the phases from phase on, and ends the turn,
// whose work it returns: -1 when a panic cut it short. Then the actor at work has failed:
// protoactor suspends it and asks its supervisor.
func step(s *Shard, first *Polled, phase int) (n int) {
	c, d, p := &s.sched, &s.delivery, &s.pollers
	n = -1
	defer func() { // once for all messages and polls
		if s.sched.phase != phaseOver { // else recover need not be called
			rescue(s, recover())
		}
	}()
	if c.phase == phaseOver {
		c.phase = phase
		s.clock.fresh = false
		if s.clock.left <= 0 {
			s.clock.read()
		}
		if first != nil && !first.off {
			d.stack.on[0] = first.m
			c.work += first.p.Poll(s)
		}
	}
	if phase == phaseInbox {
		c.phase = phasePoll
		p.begin()
		if !s.inbox.idle() {
			c.work += d.drain(maxInbox)
		}
	}
	if phase <= phasePoll {
		for p.at < len(p.walk) {
			e := &p.walk[p.at]
			p.at++
			if e.Polled != first && !(p.changed && e.off) {
				d.stack.on[0] = e.m
				c.work += e.p.Poll(s)
			}
		}
		c.phase = phaseDeliver
	}
	if phase <= phaseDeliver {
		if !fastG || !d.empty() { // without a cheap getg messages are in the inbox
			d.run()
		}
		c.phase = phaseFlush
		p.begin()
	}
	if phase <= phaseFlush {
		if c.work+d.ran != 0 {
			for p.at < len(p.walk) {
				e := &p.walk[p.at]
				p.at++
				if *e.due && !(p.changed && e.off) {
					d.stack.on[0] = e.m
					e.p.Flush(s)
				}
			}
		}
		c.phase = phaseTimers
	}
	if s.clock.now >= s.wheel.next {
		c.work += s.wheel.fire(s.clock.now, d)
	}
	return s.end()
}

// end ends the turn and returns its work.
func (s *Shard) end() int {
	c, d := &s.sched, &s.delivery
	n := c.work + d.ran
	d.delivered += uint64(d.ran)
	c.work, d.ran = 0, 0
	s.clock.left -= turnCost + n
	d.stack.on[0], c.phase = nil, phaseOver
	return n
}
