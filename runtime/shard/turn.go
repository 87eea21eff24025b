package shard

import "github.com/efactor/efactor/runtime/clock"

// Bounds of one turn, so that no part of the loop starves another.
const (
	maxInbox    = 64
	maxMessages = 256
)

// The system's clock costs as much as five hops, so it isn't read in each busy
// turn: a reading fills the fuel, a turn burns some and each message a little.
const (
	fullFuel  = 256
	turnFuel  = 8
	adoptFuel = 32
)

// Phases of a turn. A panic ends the phase's present step; the turn then goes on.
const (
	phaseInbox = iota
	phasePoll
	phaseDeliver
	phaseFlush
	phaseTimers
	phaseOver
)

// Turn runs the shard once: drain the inbox, poll, deliver messages, and if
// anything happened let the pollers flush; then timers. It returns how much was
// done, 0 if there was nothing to do. Owner only, and never from inside a turn.
func (s *Shard) Turn() int {
	if s.over {
		return 0
	}
	return s.turn(phaseInbox, 0)
}

// turn is a turn from the phase on, of which some work is done already.
func (s *Shard) turn(from, work int) int {
	s.turning, s.fresh = true, false
	if s.fuel <= 0 {
		s.readClock()
	}
	s.phase, s.ran, s.work = from, 0, work
	s.polling, s.at = s.pollers, 0
	for !s.step() {
	}
	n := s.work + s.ran
	s.delivered += uint64(s.ran)
	s.fuel -= turnFuel + n
	s.turning = false
	if s.external && s.closing.Load() && !s.shutting {
		s.shutdown()
	}
	return n
}

// step runs the phases that are left, and reports false when a panic cut it short.
func (s *Shard) step() (done bool) {
	defer s.rescueStep()
	if s.phase == phaseInbox {
		s.phase = phasePoll
		s.work += s.drain(maxInbox)
	}
	if s.phase == phasePoll {
		s.poll()
		s.phase = phaseDeliver
	}
	if s.phase == phaseDeliver {
		s.deliver()
		s.phase = phaseFlush
		s.polling, s.at = s.pollers, 0
	}
	if s.phase == phaseFlush {
		if s.work+s.ran > 0 {
			s.flush()
		}
		s.phase = phaseTimers
	}
	if s.now >= s.wheel.next {
		s.work += s.fire()
	}
	s.phase = phaseOver
	return true
}

// readClock takes the time, and decides for how long it holds.
func (s *Shard) readClock() {
	s.now = s.clock.Now()
	s.fuel, s.fresh = s.tank, true
}

// Delivered is how many messages the shard has handed to its actors. Shard only.
func (s *Shard) Delivered() uint64 { return s.delivered }

// Now is the shard's time, read every few turns. Shard only.
func (s *Shard) Now() clock.Time { return s.now }

// TurnTime is Now, but read in this turn: for who writes down when things happened.
// Shard only.
func (s *Shard) TurnTime() clock.Time {
	if !s.fresh {
		s.readClock()
	}
	return s.now
}
