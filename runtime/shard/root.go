package shard

import "github.com/asynkron/protoactor-go/actor"

// root is the process above a shard's root actors. It supervises them and knows
// which are left. It works in the owner's goroutine, inside the sender's call; s, pid,
// strategy and system never change, and any goroutine may read them.
type root struct {
	s        *Shard
	pid      *actor.PID
	strategy actor.SupervisorStrategy
	system   *actor.ActorSystem
	actors   []*mailbox // those that are left, in order of spawning
	restarts restarts
}

var (
	_ actor.Process    = (*root)(nil)
	_ actor.Supervisor = (*root)(nil)
)

func (r *root) SendUserMessage(_ *actor.PID, message any) { r.s.faults.cancel(message) }

func (r *root) SendSystemMessage(_ *actor.PID, message any) {
	if !r.s.OnShard() {
		return // only root actors report here, and they run on the shard
	}
	switch m := message.(type) {
	case *actor.Failure:
		r.strategy.HandleFailure(r.system, r, m.Who, m.RestartStats, m.Reason, m.Message)
	case *actor.Terminated:
		for i, a := range r.actors {
			if a.pid == m.Who {
				r.actors = append(r.actors[:i:i], r.actors[i+1:]...)
				break
			}
		}
	}
}

func (r *root) Stop(*actor.PID) {}

func (r *root) Children() []*actor.PID {
	pids := make([]*actor.PID, len(r.actors))
	for i, a := range r.actors {
		pids[i] = a.pid
	}
	return pids
}

// EscalateFailure is never called: the strategy of root actors restarts or stops.
func (r *root) EscalateFailure(any, any) {}

func (r *root) RestartChildren(pids ...*actor.PID) {
	for _, pid := range pids {
		r.send(pid, &actor.Restart{})
	}
}

func (r *root) StopChildren(pids ...*actor.PID) {
	for _, pid := range pids {
		r.send(pid, &actor.Stop{})
	}
}

func (r *root) ResumeChildren(pids ...*actor.PID) {
	for _, pid := range pids {
		r.send(pid, &actor.ResumeMailbox{})
	}
}

func (r *root) registry() *actor.ProcessRegistryValue { return r.system.ProcessRegistry }

// send sends a system message to the process that has the PID.
func (r *root) send(pid *actor.PID, message any) {
	if proc, ok := r.registry().Get(pid); ok {
		proc.SendSystemMessage(pid, message)
	}
}

// rootSpawner makes root the parent of what it spawns.
type rootSpawner struct {
	*actor.RootContext
	self *actor.PID
}

func (r rootSpawner) Self() *actor.PID { return r.self }
