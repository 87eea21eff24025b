package shard

import (
	"context"
	"log/slog"
	"runtime/debug"
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
func OneForOne(s *Shard, maxRestarts int, within time.Duration, decider actor.DeciderFunc) actor.SupervisorStrategy {
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
	if directive == actor.RestartDirective && o.exhausted(child) {
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

// exhausted notes a failure and reports whether it was one too many.
func (o *oneForOne) exhausted(child *actor.PID) bool {
	if o.max <= 0 {
		return true
	}
	s := o.s
	times := s.failures[child]
	if o.within > 0 {
		recent := times[:0]
		for _, t := range times {
			if s.now.Sub(t) < o.within {
				recent = append(recent, t)
			}
		}
		times = recent
	}
	if len(times) >= o.max {
		delete(s.failures, child)
		return true
	}
	if s.failures == nil {
		s.failures = make(map[*actor.PID][]clock.Time)
	}
	s.failures[child] = append(times, s.now)
	return false
}

// rescue, deferred once per batch, makes a panic the failure of the actor at
// work: protoactor suspends it and asks its supervisor.
func (s *Shard) rescue() {
	if r := recover(); r != nil {
		s.failed(r)
	}
}

// rescueStep is rescue for a turn, which asks for a panic only if there was one.
func (s *Shard) rescueStep() {
	if s.phase == phaseOver {
		return
	}
	if r := recover(); r != nil {
		s.failed(r)
	}
}

// failed makes a panic the failure of the actor at work.
func (s *Shard) failed(r any) {
	s.work++
	s.stats.failures.Add(1)
	m, msg := s.cur, s.curMsg
	s.cur, s.curMsg = nil, nil
	if m == nil {
		s.logFailure("nobody", r)
		return
	}
	if m.msg != nil {
		msg, m.msg = m.msg, nil
	}
	s.logFailure(m.pid.GetId(), r)
	switch {
	case m.stopped: // gone already; there is nothing to supervise
	case m.stopping:
		s.forceStop(m)
	default:
		m.invoker.EscalateFailure(r, msg)
		m.suspend() // now, not when the message that says so comes round
	}
	m.refresh()
}

func (s *Shard) logFailure(who string, reason any) {
	if s.log.Enabled(context.Background(), slog.LevelError) {
		s.log.Error("actor failed", "actor", who, "reason", reason, "stack", string(debug.Stack()))
	}
}
