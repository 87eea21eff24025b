package shard

import (
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// hidden is the one actor system of the process: it costs 2.8 MB, so shards share
// it, and the last one to close lets go of it.
var hidden struct {
	mu     sync.Mutex
	system *actor.ActorSystem
	users  int
}

// acquireSystem returns the actor system and the name under which root, a
// shard's root process, is registered in it.
func acquireSystem(name string, root actor.Process) (*actor.ActorSystem, *actor.PID) {
	hidden.mu.Lock()
	defer hidden.mu.Unlock()
	if hidden.users == 0 {
		hidden.system = actor.NewActorSystem(
			// Shards log failures themselves; protoactor's default writes to stderr.
			actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
			// The throttle of dead letters keeps a goroutine for its interval.
			actor.WithDeadLetterThrottleInterval(time.Nanosecond),
		)
	}
	hidden.users++
	for i := 1; ; i++ {
		id := name
		if i > 1 {
			id += "#" + strconv.Itoa(i)
		}
		if pid, absent := hidden.system.ProcessRegistry.Add(root, id); absent {
			return hidden.system, pid
		}
	}
}

func releaseSystem(root *actor.PID) {
	hidden.mu.Lock()
	defer hidden.mu.Unlock()
	hidden.system.ProcessRegistry.Remove(root)
	if hidden.users--; hidden.users == 0 {
		hidden.system = nil
	}
}

// root is the process above a shard's root actors. It supervises them and knows
// which are left. It works in the goroutine of the shard, inside the sender's call.
type root struct {
	s        *Shard
	pid      *actor.PID
	strategy actor.SupervisorStrategy
	actors   []*mailbox // in order of spawning
}

var (
	_ actor.Process    = (*root)(nil)
	_ actor.Supervisor = (*root)(nil)
)

func (r *root) SendUserMessage(_ *actor.PID, message any) { r.s.cancel(message) }

func (r *root) SendSystemMessage(_ *actor.PID, message any) {
	if !r.s.OnShard() {
		return // only root actors report here, and they run on the shard
	}
	switch m := message.(type) {
	case *actor.Failure:
		r.strategy.HandleFailure(r.s.actors, r, m.Who, m.RestartStats, m.Reason, m.Message)
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
		r.s.send(pid, &actor.Restart{})
	}
}

func (r *root) StopChildren(pids ...*actor.PID) {
	for _, pid := range pids {
		r.s.send(pid, &actor.Stop{})
	}
}

func (r *root) ResumeChildren(pids ...*actor.PID) {
	for _, pid := range pids {
		r.s.send(pid, &actor.ResumeMailbox{})
	}
}

// rootSpawner makes root the parent of what it spawns.
type rootSpawner struct {
	*actor.RootContext
	self *actor.PID
}

func (r rootSpawner) Self() *actor.PID { return r.self }
