package shard

import (
	"github.com/asynkron/protoactor-go/actor"
)

// Tell sends m to an actor by the Ref lane. On the shard of that actor it is a
// push on the FIFO ring; anywhere else it goes through that shard's inbox, as
// with Post. A message to nobody is canceled.
func (s *Shard) Tell(to Ref, m Msg) {
	if to.m == nil {
		s.cancel(m)
		return
	}
	if t := to.m.s; t.local() {
		t.ring.push(to.m, m, laneRef)
	} else {
		t.remote(to.m, m, laneRef)
	}
}

// Post sends m to an actor from any goroutine and wakes its shard if it sleeps.
// It never blocks. What one goroutine tells and posts arrives in that order.
func (s *Shard) Post(to Ref, m Msg) { s.Tell(to, m) }

// put files a user message from whichever goroutine calls.
func (s *Shard) put(m *mailbox, msg any, l lane) {
	if s.local() {
		s.ring.push(m, msg, l)
		return
	}
	s.remote(m, msg, l)
}

// remote files a message from a goroutine that doesn't own the shard.
func (s *Shard) remote(m *mailbox, msg any, l lane) {
	s.inbox.push(m, msg, l)
	if s.parked.Load() != awake {
		s.rouse()
	}
}

// enqueue files a message on the ring. Precondition: the caller owns the shard.
func (s *Shard) enqueue(to Ref, m Msg) {
	if to.m == nil {
		s.cancel(m)
		return
	}
	s.ring.push(to.m, m, laneRef)
}

// drain moves up to limit entries from the inbox to the rings.
func (s *Shard) drain(limit int) (n int) {
	for n < limit {
		e, ok := s.inbox.pop()
		if !ok {
			break
		}
		n++
		switch e.lane {
		case laneCall:
			s.cur, s.curMsg = nil, nil
			e.msg.(func())()
		case laneSystem:
			s.sys.push(e.m, e.msg, e.lane)
		case laneRef, lanePID:
			s.ring.push(e.m, e.msg, e.lane)
		}
	}
	return n
}

// deliver handles messages until there are none or the turn has had its share:
// system messages first, then what a resumed actor was owed, then the ring.
func (s *Shard) deliver() {
	for s.ran < maxMessages {
		var (
			m   *mailbox
			msg any
			l   lane
		)
		switch {
		case s.sys.len()|s.replay.len() != 0:
			s.ran++
			if s.sys.len() != 0 {
				m, msg, _ = s.sys.pop()
				s.system(m, msg)
				continue
			}
			m, msg, l = s.replay.pop()
		case s.ring.len() != 0:
			s.ran++
			m, msg, l = s.ring.pop()
		default:
			// Without a cheap getg the shard's own messages are in its inbox.
			if !fastG && s.drain(maxInbox) > 0 {
				continue
			}
			return
		}
		s.cur = m
		if l == laneRef && m.fast {
			m.msg = msg
			m.actor.Receive((*refContext)(m))
			m.msg = nil
			continue
		}
		s.slow(m, msg, l)
	}
}

// slow delivers what can't go straight to Receive.
func (s *Shard) slow(m *mailbox, msg any, l lane) {
	switch {
	case m.stopped:
		s.cancel(msg)
	case m.suspended:
		x := m.extras()
		x.held = append(x.held, entry{m, msg, l})
	default:
		s.curMsg = msg
		m.invoker.InvokeUserMessage(msg)
		s.curMsg = nil
		m.rearmed()
	}
}

// system handles one of protoactor's own messages.
func (s *Shard) system(m *mailbox, msg any) {
	s.cur, s.curMsg = m, msg
	switch msg.(type) {
	case *actor.SuspendMailbox:
		m.suspend()
	case *actor.ResumeMailbox:
		m.resume()
	case *actor.Stop:
		s.noteStop(m)
		m.invoker.InvokeSystemMessage(msg)
	case *actor.Restart:
		if !m.stopping { // it would undo the stop
			m.restarted = true
			m.invoker.InvokeSystemMessage(msg)
		}
	default:
		m.invoker.InvokeSystemMessage(msg)
	}
	s.curMsg = nil
	m.refresh()
	if m.stopping && !m.stopped {
		s.checkStopped(m)
	}
}

// cancel ends a message that reached nobody.
func (s *Shard) cancel(msg any) {
	msg = actor.UnwrapEnvelopeMessage(msg)
	if c, ok := msg.(Canceled); ok {
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("Canceled panicked", "shard", s.name, "reason", r)
			}
		}()
		c.Canceled()
		return
	}
	s.stats.canceled.Add(1)
}
