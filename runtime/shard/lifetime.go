package shard

import (
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// lifetime starts the goroutines of a shard and ends the shard.
type lifetime struct {
	s       *Shard
	done    chan struct{} // closed at the end of shutdown
	running sync.WaitGroup
	ending  bool // in shutdown; owner only
}

// start gets the descriptors and the goroutine that the mode needs. It returns when
// the goroutine owns the shard or, for a lent one, exists.
func (l *lifetime) start() error {
	if l.s.external {
		return nil
	}
	if err := l.open(); err != nil {
		return err
	}
	ready := make(chan error, 1)
	countShard()
	l.running.Go(func() {
		defer uncountShard()
		l.run(ready)
	})
	if err := <-ready; err != nil {
		l.free()
		return err
	}
	if n := l.s.notifier; n != nil {
		l.running.Go(n.run)
	}
	return nil
}

// run is the goroutine of the shard.
func (l *lifetime) run(ready chan<- error) {
	s := l.s
	if s.mode == Pinned {
		// Not unlocked: the thread ends with the goroutine, and so its affinity.
		runtime.LockOSThread()
		if err := pin(s.pinCPU); err != nil {
			ready <- err
			return
		}
	}
	if s.lent {
		ready <- nil
		h := helper{s: s}
		h.run()
		return
	}
	s.owner.set()
	ready <- nil
	loop := loop{s: s, pinned: s.mode == Pinned}
	loop.run()
}

// open gets the descriptors that the mode needs.
func (l *lifetime) open() (err error) {
	s := l.s
	if err := s.sleeper.bell.open(); err != nil {
		return err
	}
	if s.mode == Pinned && !s.lent {
		if s.notifier, err = newNotifier(); err != nil {
			s.sleeper.bell.close()
			return err
		}
	}
	return nil
}

// free gives the descriptors back.
func (l *lifetime) free() {
	if l.s.external {
		return
	}
	l.s.sleeper.bell.close()
	if n := l.s.notifier; n != nil {
		n.stop()
	}
}

// Idle turns after which an actor that was asked to stop gets a Stop, and after which
// it is left behind.
const (
	stopAfter    = 64
	abandonAfter = 4 * stopAfter
)

// shutdown ends the shard. Precondition: the caller owns it, outside of a turn.
// It gives the ownership up.
func (l *lifetime) shutdown() {
	s := l.s
	l.ending = true
	for len(s.root.actors) > 0 {
		l.end(s.root.actors[0])
	}
	s.sched.over = true
	s.delivery.cancelAll()
	s.parking.close()
	s.owner.drop()
	s.inbox.cancelAll(&s.faults)
	releaseSystem(s.root.pid)
	l.free()
	close(l.done)
}

// end stops one root actor. A suspended one sees no poison, so if nothing moves
// it gets a Stop, and if that does not help it is left behind.
func (l *lifetime) end(m *mailbox) {
	s := l.s
	s.inbox.push(m, &actor.PoisonPill{}, lanePID) // behind all that was posted
	for idle := 0; len(s.root.actors) > 0 && s.root.actors[0] == m; {
		if s.Turn() > 0 {
			idle = 0
			continue
		}
		switch idle++; idle {
		case stopAfter:
			s.root.send(m.pid, &actor.Stop{})
		case abandonAfter:
			s.faults.log.Error("actor did not stop", "actor", m.pid.GetId())
			s.root.actors = s.root.actors[1:]
		}
	}
}

// Close stops the root actors in the order in which they were spawned, each
// after the messages it has and before the next begins to stop; then it ends the
// shard. Waiters whose signal was not set by then get ErrClosed, messages still
// under way are canceled. Any goroutine may call Close, any number of times; it
// returns when all is done, or, called from inside a turn, at once.
func (s *Shard) Close() error {
	first := s.closing.CompareAndSwap(false, true)
	s.claims.Store(false)
	switch {
	case s.OnShard():
		if s.sched.inTurn() || s.parking.isClosed() {
			return nil
		}
		if s.external {
			s.life.shutdown()
		}
		return nil
	case s.external && first && s.owner.take():
		s.life.shutdown()
	case !s.external:
		s.sleeper.wakeHelper()
	}
	<-s.life.done
	s.life.running.Wait()
	return nil
}
