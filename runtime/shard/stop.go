package shard

import "github.com/asynkron/protoactor-go/actor"

// maxTrips is how often an actor may panic while it stops before it is taken out
// without being asked again.
const maxTrips = 3

// Stop ends an actor as protoactor's Stop does: ahead of its user messages,
// which are canceled. For an orderly end, after them, use Poison.
func (s *Shard) Stop(r Ref) {
	if r.m == nil {
		return
	}
	s.actors.Root.Stop(r.m.pid)
}

// noteStop remembers which process the registry has for m: when that is gone, so
// is m. The actor context keeps its state to itself.
func (s *Shard) noteStop(m *mailbox) {
	if m.stopping {
		return
	}
	m.stopping = true
	m.extras().proc, _ = s.registry().GetLocal(m.pid.GetId())
}

// checkStopped retires m once the registry has let go of it.
func (s *Shard) checkStopped(m *mailbox) {
	if proc, ok := s.registry().GetLocal(m.pid.GetId()); !ok || proc != m.x.proc {
		s.retire(m)
	}
}

// retire is the end of m: what was held for it is canceled, as will be what still
// comes.
func (s *Shard) retire(m *mailbox) {
	m.stopped, m.fast = true, false
	x := m.x
	m.x = nil
	for _, msg := range x.stash {
		s.cancel(msg)
	}
	for _, e := range x.held {
		s.cancel(e.msg)
	}
	delete(s.failures, m.pid)
	s.dropPollers(func(e *pollerEntry) bool { return e.m == m })
}

// forceStop carries on with the stop of an actor that panicked in it. Its
// supervisor isn't asked, since a restart would undo the stop. Protoactor goes
// on with a stop when a child has ended, so without children we say that one has.
func (s *Shard) forceStop(m *mailbox) {
	x := m.extras()
	x.trips++
	proc, ok := s.registry().GetLocal(m.pid.GetId())
	switch alive := ok && proc == x.proc; {
	case alive && x.trips <= maxTrips:
		children := m.Context.Children()
		for _, child := range children {
			m.Context.Stop(child)
		}
		if len(children) == 0 {
			s.sys.push(m, &actor.Terminated{Who: m.pid}, laneSystem)
		}
	default: // it fell over Stopped, or fell too often: its parent isn't told yet
		if alive {
			s.registry().Remove(m.pid)
		}
		s.send(m.Context.Parent(), &actor.Terminated{Who: m.pid})
		s.retire(m)
	}
}

// send sends a system message to whoever has the PID.
func (s *Shard) send(pid *actor.PID, message any) {
	if proc, ok := s.registry().Get(pid); ok {
		proc.SendSystemMessage(pid, message)
	}
}
