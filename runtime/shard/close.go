package shard

import "github.com/asynkron/protoactor-go/actor"

// Close stops the root actors in the order in which they were spawned, each
// after the messages it has and before the next begins to stop; then it ends the
// shard. Waiters whose signal wasn't set by then get ErrClosed, messages still
// under way are canceled. Any goroutine may call Close, any number of times; it
// returns when all is done, or, called from inside a turn, at once.
func (s *Shard) Close() error {
	first := s.closing.CompareAndSwap(false, true)
	switch {
	case s.OnShard():
		if s.turning || s.closed() {
			return nil
		}
		if s.external {
			s.shutdown()
		}
		return nil
	case s.external && first && s.Adopt():
		s.shutdown()
	case !s.external:
		s.callHelper()
	}
	<-s.done
	s.running.Wait()
	return nil
}

func (s *Shard) closed() bool { return s.parked.Load() == ended }

// Idle turns after which an actor that was asked to stop is told to, and given up.
const (
	patience     = 64
	lastPatience = 4 * patience
)

// shutdown ends the shard. Precondition: the caller owns it, outside of a turn.
// It gives the ownership up.
func (s *Shard) shutdown() {
	s.shutting = true
	for len(s.root.actors) > 0 {
		s.end(s.root.actors[0])
	}
	s.over = true
	s.discard()
	s.parked.Store(ended)
	s.g.Store(0)
	s.sweep()
	releaseSystem(s.root.pid)
	s.shut()
	close(s.done)
}

// end stops one root actor. A suspended one sees no poison, so if nothing moves
// it gets a Stop, and if that doesn't help it is left behind.
func (s *Shard) end(m *mailbox) {
	s.inbox.push(m, &actor.PoisonPill{}, lanePID) // behind all that was posted
	for idle := 0; len(s.root.actors) > 0 && s.root.actors[0] == m; {
		if s.Turn() > 0 {
			idle = 0
			continue
		}
		switch idle++; idle {
		case patience:
			s.send(m.pid, &actor.Stop{})
		case lastPatience:
			s.log.Error("actor did not stop", "actor", m.pid.GetId())
			s.root.actors = s.root.actors[1:]
		}
	}
}

// discard cancels what is left on the rings. Owner only, when all actors are gone.
func (s *Shard) discard() {
	for _, r := range []*ring{&s.sys, &s.replay, &s.ring} {
		for r.len() > 0 {
			if _, msg, l := r.pop(); l != laneSystem {
				s.cancel(msg)
			}
		}
	}
}

// sweep cancels what is in the inbox of a shard that has ended: for the last
// owner what nobody will handle, for a producer what it posted too late. No lock
// is held over Canceled, which may post.
func (s *Shard) sweep() {
	for {
		s.sweepMu.Lock()
		e, ok := s.inbox.pop()
		idle := !ok && s.inbox.idle()
		s.sweepMu.Unlock()
		switch {
		case idle:
			return
		case !ok:
			osYield() // a producer is between two steps
		case e.lane == laneRef || e.lane == lanePID:
			s.cancel(e.msg)
		}
	}
}
