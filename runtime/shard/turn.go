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
	n := turn(s, nil, phaseInbox)
	if s.external && s.closing.Load() && !s.life.ending {
		s.life.shutdown()
	}
	return n
}
