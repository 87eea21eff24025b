package shard

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/runtime/clock"
)

// Restarts that an actor without a strategy of its own is allowed.
const (
	defaultRestarts = 10
	defaultWithin   = 10 * time.Second
)

// OneForOne returns a strategy for children on s: the decider's directive goes
// to the child that failed, and one that failed more than maxRestarts times
// within the given time is stopped. 0 restarts stop it at once, and within 0
// counts failures for ever. It differs from protoactor's in that the time is the
// shard's; protoactor's strategies read the system's clock.
func (s *Shard) OneForOne(maxRestarts int, within time.Duration, decider actor.DeciderFunc) actor.SupervisorStrategy {
	if decider == nil {
		decider = actor.DefaultDecider
	}
	return &oneForOne{s, maxRestarts, within, decider}
}

type oneForOne struct {
	s       *Shard
	max     int
	within  time.Duration
	decider actor.DeciderFunc
}

// HandleFailure runs on the shard: failures come as system messages.
func (o *oneForOne) HandleFailure(system *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, message any,
) {
	directive := o.decider(reason)
	if directive == actor.RestartDirective && (o.max <= 0 || o.s.root.restarts.exhausted(child, o.max, o.within, o.s.clock.now)) {
		directive = actor.StopDirective
	}
	if directive == actor.EscalateDirective {
		supervisor.EscalateFailure(reason, message)
		return
	}
	system.EventStream.Publish(&actor.SupervisorEvent{Child: child, Reason: reason, Directive: directive})
	switch directive {
	case actor.ResumeDirective:
		supervisor.ResumeChildren(child)
	case actor.RestartDirective:
		supervisor.RestartChildren(child)
	default:
		supervisor.StopChildren(child)
	}
}

// restarts remembers when actors failed. Owner only.
type restarts struct{ times map[*actor.PID][]clock.Time }

// exhausted notes a failure and reports whether it was one too many.
func (r *restarts) exhausted(child *actor.PID, limit int, within time.Duration, now clock.Time) bool {
	times := r.times[child]
	if within > 0 {
		recent := times[:0]
		for _, t := range times {
			if now.Sub(t) < within {
				recent = append(recent, t)
			}
		}
		times = recent
	}
	if len(times) >= limit {
		delete(r.times, child)
		return true
	}
	if r.times == nil {
		r.times = make(map[*actor.PID][]clock.Time)
	}
	r.times[child] = append(times, now)
	return false
}

// forget is for an actor that has stopped.
func (r *restarts) forget(child *actor.PID) { delete(r.times, child) }

// rescue makes a panic that nothing below the turn has rescued the failure of the actor at work: nobody
// is at work then. A nil reason is none.
func (s *Shard) rescue(reason any) {
	if reason != nil {
		s.failed(reason, 0)
		s.delivery.stack.on[0] = nil
	}
}

// failed makes a panic the failure of the actor at work, and ends the handlers that are on the
// stack above depth.
func (s *Shard) failed(reason any, depth uint) {
	s.sched.work++
	c := &s.delivery.stack
	m, msg := c.top(), c.msg
	c.unwind(depth)
	c.msg = nil
	if m == nil {
		s.faults.panicked("nobody", reason)
		return
	}
	m.fail(reason, msg)
}

// fail makes a panic, in the message that protoactor knows of, the failure of m.
func (m *mailbox) fail(reason, msg any) {
	if m.msg != nil {
		msg, m.msg = m.msg, nil
	}
	m.s.faults.panicked(m.pid.GetId(), reason)
	switch {
	case m.stopped: // gone already; there is nothing to supervise
	case m.stopping:
		m.forceStop()
	default:
		m.invoker.EscalateFailure(reason, msg)
		m.suspend() // now, not when the message that says so is delivered
	}
	m.refresh()
}
