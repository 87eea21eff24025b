package shard

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// faults counts and logs what goes wrong: messages that reached no actor, and panics.
// Any goroutine may use it.
type faults struct {
	log                *slog.Logger
	name               string // of the shard
	canceled, failures atomic.Uint64
}

// cancel ends a message that reached no actor.
func (f *faults) cancel(msg any) {
	msg = actor.UnwrapEnvelopeMessage(msg)
	if c, ok := msg.(Canceled); ok {
		defer func() {
			if r := recover(); r != nil {
				f.log.Error("Canceled panicked", "shard", f.name, "reason", r)
			}
		}()
		c.Canceled()
		return
	}
	f.canceled.Add(1)
}

// panicked counts and logs a panic of an actor, or of a poller that is no actor's.
func (f *faults) panicked(actor string, reason any) {
	f.failures.Add(1)
	if f.log.Enabled(context.Background(), slog.LevelError) {
		f.log.Error("actor failed", "actor", actor, "reason", reason, "stack", string(debug.Stack()))
	}
}
