package shard

// Phases of a turn. A panic ends the phase's present step; the turn then goes on with the next.
const (
	phaseOver = iota // no turn is under way
	phaseInbox
	phaseBegin // of the walk over the pollers
	phasePoll
	phaseDeliver
	phaseFlush
	phaseTimers
)

// scheduler is the state of the present turn, which outlives a panic in it. Owner
// only.
type scheduler struct {
	phase int  // the one with which the turn goes on after a panic
	work  int  // of this turn, besides the messages that are being delivered
	looks int  // how often the turn may look for work
	over  bool // past the last turn
}

// inTurn reports whether a turn is running.
func (c *scheduler) inTurn() bool { return c.phase != phaseOver }

// Turn runs the shard once: drain the inbox, poll, deliver messages, and if
// anything happened let the pollers flush; then timers. It returns how much was
// done, 0 if there was nothing to do. Owner only, and never from inside a turn.
func (s *Shard) Turn() int {
	n := s.turn(1)
	if s.external && s.closing.Load() && !s.life.ending {
		s.life.shutdown()
	}
	return n
}

// turn is a turn that looks up to that many times for work.
func (s *Shard) turn(looks int) int {
	if s.sched.over {
		return 0
	}
	s.sched.looks = looks
	n := s.step(nil, phaseInbox)
	if n < 0 {
		n = s.goOn(nil)
	}
	return n
}

// step begins a turn if none is under way: it polls first unless that is nil. Then it runs the
// phases from phase on, where first is not polled again, and ends the turn. It returns the
// turn's work, or -1 when a panic cut the turn short, for goOn. The actor at work has failed
// then: protoactor suspends it and asks its supervisor.
//
// A turn that finds nothing to do looks at the pollers again if the scheduler says so: a shard
// that spins reacts sooner, since a look is less than half of what one turn after another takes.
func (s *Shard) step(first *Polled, phase int) (n int) {
	n = -1
	defer func() { // once for all messages and polls
		if s.sched.phase != phaseOver { // else recover need not be called
			s.rescue(recover())
		}
	}()
	if s.sched.phase == phaseOver {
		s.sched.phase = phase
		s.clock.fresh = false
		if s.clock.left <= 0 {
			s.clock.read()
		}
		if first != nil && !first.off {
			s.delivery.stack.on[0] = first.m
			s.sched.work += first.p.Poll(s)
		}
	}
	e := s.pollers.at // of a walk that a panic has cut short
	switch phase {
	case phaseInbox:
		if !s.inbox.idle() {
			s.sched.phase = phaseBegin
			s.sched.work += s.delivery.drain(maxInbox)
		}
		fallthrough
	case phaseBegin:
		e, s.sched.phase = s.pollers.begin(), phasePoll
		fallthrough
	case phasePoll:
		for {
			for ; e != nil; e = e.after {
				if e != first && !e.off {
					s.pollers.at, s.delivery.stack.on[0] = e.after, e.m
					s.sched.work += e.p.Poll(s)
				}
			}
			if s.sched.work != 0 || s.sched.looks <= 1 || !s.quiet() {
				break
			}
			s.sched.looks--
			s.clock.left -= turnCost
			pause()
			e = s.pollers.first
		}
		fallthrough
	case phaseDeliver:
		if !fastG || !s.delivery.empty() { // without a cheap getg messages are in the inbox
			s.sched.phase = phaseDeliver
			s.sched.work += s.delivery.run()
		}
		e, s.sched.phase = s.pollers.begin(), phaseFlush
		fallthrough
	case phaseFlush:
		if s.sched.work != 0 {
			for ; e != nil; e = e.after {
				if *e.due && !e.off {
					s.pollers.at, s.delivery.stack.on[0] = e.after, e.m
					e.p.Flush(s)
				}
			}
		}
	}
	if s.clock.now >= s.wheel.next {
		s.sched.phase = phaseTimers
		s.sched.work += s.wheel.fire(s.clock.now, &s.delivery)
	}
	n = s.sched.work
	s.clock.left -= turnCost + n
	s.sched.phase, s.sched.work, s.delivery.stack.on[0] = phaseOver, 0, nil
	return n
}

// quiet reports whether there is nothing to do but what the pollers may find that are walked.
func (s *Shard) quiet() bool {
	return !s.pollers.changed && s.delivery.empty() && s.inbox.idle()
}

// goOn is the rest of a turn that a panic has cut short.
func (s *Shard) goOn(first *Polled) (n int) {
	for n = -1; n < 0; n = s.step(first, s.sched.phase) {
	}
	return n
}
