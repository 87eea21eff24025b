package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/internal/errtext"
)

// spawner is the actor of each process that spawns for the others.
const spawner = "efactor-spawner"

// Register has other processes spawn actors here by kind. It may be called at any time, and
// replaces a kind of that name.
func (r *Remote) Register(kind string, props *actor.Props) { r.kinds.Store(kind, props) }

// Spawn spawns an actor of a kind that the process at an address has registered, and returns its
// PID, which has a name that was not used before. Its supervisor is the root there.
func (r *Remote) Spawn(ctx context.Context, address, kind string) (*actor.PID, error) {
	return r.SpawnNamed(ctx, address, "", kind)
}

// SpawnNamed is Spawn with a name. If there is an actor of that name already, its PID is returned
// with ErrNameExists. ErrNoKind, ErrUnreachable and the error of ctx are the others.
func (r *Remote) SpawnNamed(ctx context.Context, address, name, kind string) (_ *actor.PID, err error) {
	defer errtext.Wrap("remote", "spawn "+kind+" at "+address, &err)
	f := r.system.Root.RequestFuture(actor.NewPID(address, spawner), &spawnRequest{kind, name}, untilEnd(ctx, r.cfg.Timeout))
	end := context.AfterFunc(ctx, func() { r.system.Root.Send(f.PID(), &spawnReply{code: spawnGivenUp}) })
	defer end()
	answer, err := f.Result()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	reply, ok := answer.(*spawnReply)
	if !ok {
		return nil, violation("%T in answer to a spawn", answer)
	}
	pid := actor.NewPID(address, reply.id)
	switch reply.code {
	case spawned:
		return pid, nil
	case spawnExists:
		return pid, fmt.Errorf("%w: %s", ErrNameExists, reply.id)
	case spawnNoKind:
		return nil, ErrNoKind
	}
	return nil, errors.New(reply.id)
}

// untilEnd is how long a future has to wait for a context. The future's own end is a safeguard.
func untilEnd(ctx context.Context, most time.Duration) time.Duration {
	if _, ok := ctx.Deadline(); ok {
		return -1 // ctx ends it
	}
	return most
}

// spawns is the actor that spawns.
func (r *Remote) spawns(c actor.Context) {
	m, ok := c.Message().(*spawnRequest)
	if !ok {
		return
	}
	c.Respond(r.spawn(m))
}

func (r *Remote) spawn(m *spawnRequest) (reply *spawnReply) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("remote: spawning panicked", slog.String("kind", m.kind), slog.Any("panic", p))
			reply = &spawnReply{spawnFailed, fmt.Sprint("panic: ", p)}
		}
	}()
	props, ok := r.kinds.Load(m.kind)
	if !ok {
		return &spawnReply{code: spawnNoKind}
	}
	name := m.name
	if name == "" {
		name = "remote" + r.system.ProcessRegistry.NextId()
	}
	pid, err := r.system.Root.SpawnNamed(props.(*actor.Props), name)
	switch {
	case err == nil:
		return &spawnReply{spawned, pid.Id}
	case errors.Is(err, actor.ErrNameExists):
		return &spawnReply{spawnExists, name}
	}
	return &spawnReply{spawnFailed, err.Error()}
}

// spawnRequest asks for an actor, and spawnReply is the answer.
type (
	spawnRequest struct{ kind, name string }
	spawnReply   struct {
		code byte
		id   string // or what went wrong
	}
)

const (
	spawned = iota
	spawnExists
	spawnNoKind
	spawnFailed
	spawnGivenUp // by the caller's context; never sent
)

// spawnCodec is the codec of the two.
type spawnCodec struct{}

func (spawnCodec) Name() string { return "efactor" }

func (spawnCodec) Takes(t reflect.Type) bool {
	return t == reflect.TypeFor[*spawnRequest]() || t == reflect.TypeFor[*spawnReply]()
}

func (spawnCodec) Append(b []byte, message any) ([]byte, string, error) {
	if m, ok := message.(*spawnRequest); ok {
		return appendString(appendString(b, m.kind), m.name), "spawn", nil
	}
	m := message.(*spawnReply)
	return appendString(append(b, m.code), m.id), "spawned", nil
}

func (spawnCodec) Decode(typ string, b []byte) (message any, err error) {
	switch r := (reader{b: b}); typ {
	case "spawn":
		m := &spawnRequest{}
		if m.kind, err = r.text(); err != nil {
			return nil, err
		}
		m.name, err = r.text()
		return m, err
	case "spawned":
		if len(b) == 0 || b[0] >= spawnGivenUp {
			return nil, violation("a spawn's answer")
		}
		m := &spawnReply{code: b[0]}
		r.b = b[1:]
		m.id, err = r.text()
		return m, err
	}
	return nil, violation("type %q", typ)
}
