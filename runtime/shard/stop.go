package shard

import "github.com/asynkron/protoactor-go/actor"

// maxStopPanics is how often an actor may panic while it stops before it is taken out
// without being asked again.
const maxStopPanics = 3

// Stop ends an actor as protoactor's Stop does: ahead of its user messages,
// which are canceled. For an orderly end, after them, use Poison.
func (s *Shard) Stop(r Ref) {
	if r.m == nil {
		return
	}
	s.root.system.Root.Stop(r.m.pid)
}

// noteStop remembers which process the registry has for m: when that is gone, so
// is m. The actor context keeps its state to itself.
func (m *mailbox) noteStop() {
	if m.stopping {
		return
	}
	m.stopping = true
	m.extras().proc, _ = m.s.root.registry().GetLocal(m.pid.GetId())
}

// registered reports whether the registry still has the process that noteStop saw.
func (m *mailbox) registered() bool {
	proc, ok := m.s.root.registry().GetLocal(m.pid.GetId())
	return ok && proc == m.x.proc
}

// checkStopped retires m once the registry has let go of it.
func (m *mailbox) checkStopped() {
	if !m.registered() {
		m.retire()
	}
}

// retire is the end of m: what was held for it is canceled, as will be what still
// comes.
func (m *mailbox) retire() {
	s := m.s
	m.stopped = true
	m.bars.setFast(false)
	x := m.x
	m.x = nil
	for _, msg := range x.stash {
		s.faults.cancel(msg)
	}
	for _, e := range x.held {
		s.faults.cancel(e.msg)
	}
	s.root.restarts.forget(m.pid)
	s.pollers.remove(func(e *Polled) bool { return e.m == m })
}

// forceStop carries on with the stop of an actor that panicked in it. Its
// supervisor is not asked, since a restart would undo the stop. protoactor goes
// on with a stop when a child has ended, so for an actor without children forceStop
// reports the end of one.
func (m *mailbox) forceStop() {
	s := m.s
	x := m.extras()
	x.panics++
	switch alive := m.registered(); {
	case alive && x.panics <= maxStopPanics:
		children := m.Context.Children()
		for _, child := range children {
			m.Context.Stop(child)
		}
		if len(children) == 0 {
			s.delivery.sys.push(m, &actor.Terminated{Who: m.pid}, laneSystem)
		}
	default: // it panicked in Stopped, or too often: its parent does not know yet
		if alive {
			s.root.registry().Remove(m.pid)
		}
		s.root.send(m.Context.Parent(), &actor.Terminated{Who: m.pid})
		m.retire()
	}
}
