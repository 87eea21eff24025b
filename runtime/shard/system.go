package shard

import (
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// hidden is the one actor system of the process: it costs 2.8 MB, so shards share
// it, and the last one to close drops it.
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
