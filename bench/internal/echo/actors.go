package echo

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/remote"
)

// Actors are systems of protoactor-go's actors: one whose remote is api/remote, in shared memory,
// with goroutines that sleep when there is nothing to do; one with protoactor's own; and one without any, where both
// actors are in one process.
var Actors = []System{
	{"efactor-actors", serveOurs, dialOurs},
	{"protoactor", serveProtoactor, dialProtoactor},
	{"protoactor-local", serveNothing, dialLocal},
}

// streamer is a caller that also sends one way.
type streamer interface {
	// stream sends n messages, and returns when the last has arrived.
	stream(ctx context.Context, n int, message []byte) error
}

func silent() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
}

// answering is the actor that answers what it is asked, and counts what has no sender: to a count it
// answers when so many have come.
func answering() *actor.Props {
	return actor.PropsFromProducer(func() actor.Actor { return new(counter) })
}

type counter struct {
	n    uint64
	want uint64
	who  *actor.PID
}

func (a *counter) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *wrapperspb.BytesValue:
		if c.Sender() != nil {
			c.Respond(m)
			return
		}
		a.n++
	case *wrapperspb.UInt64Value:
		a.want, a.who = m.GetValue(), c.Sender()
	}
	if a.who != nil && a.n >= a.want {
		c.Send(a.who, wrapperspb.UInt64(a.n))
		a.n, a.who = 0, nil
	}
}

// actorCaller asks an actor.
type actorCaller struct {
	system *actor.ActorSystem
	pid    *actor.PID
	end    func() error
}

func (c *actorCaller) call(_ context.Context, question []byte) ([]byte, error) {
	answer, err := c.system.Root.RequestFuture(c.pid, wrapperspb.Bytes(question), patience).Result()
	if err != nil {
		return nil, err
	}
	m, ok := answer.(*wrapperspb.BytesValue)
	if !ok {
		return nil, fmt.Errorf("%w: a %T", errAnswer, answer)
	}
	return m.GetValue(), nil
}

// stream has the same message again and again, as nobody changes it.
func (c *actorCaller) stream(_ context.Context, n int, message []byte) error {
	m := wrapperspb.Bytes(message)
	for range n {
		c.system.Root.Send(c.pid, m)
	}
	answer, err := c.system.Root.RequestFuture(c.pid, wrapperspb.UInt64(uint64(n)), patience).Result() //nolint:gosec // a count
	if err != nil {
		return err
	}
	if m, ok := answer.(*wrapperspb.UInt64Value); !ok || m.GetValue() != uint64(n) { //nolint:gosec // a count
		return fmt.Errorf("%w: %v of %d messages", errAnswer, answer, n)
	}
	return nil
}

func (c *actorCaller) close() error { return c.end() }

// ours is a process of api/remote's.
func ours(ctx context.Context) (*actor.ActorSystem, *remote.Remote, error) {
	system := silent()
	c := remote.Config{Setup: &efa.Setup{Fabric: efa.Config{DeviceName: "shm"}}}
	r, err := c.Listen(ctx, system, "")
	return system, r, err
}

func serveOurs(ctx context.Context, _ Plan, ready func(string)) error {
	system, r, err := ours(ctx)
	if err != nil {
		return err
	}
	if _, err := system.Root.SpawnNamed(answering(), actorName); err != nil {
		return err
	}
	ready(r.Address())
	<-ctx.Done()
	return r.Close(context.Background())
}

func dialOurs(ctx context.Context, _ Plan, addr string) (caller, error) {
	system, r, err := ours(ctx)
	if err != nil {
		return nil, err
	}
	return &actorCaller{system, actor.NewPID(addr, actorName), func() error { return r.Close(context.Background()) }}, nil
}

// serveNothing is the process that nobody needs.
func serveNothing(ctx context.Context, _ Plan, ready func(string)) error {
	ready("nowhere")
	<-ctx.Done()
	return nil
}

func dialLocal(context.Context, Plan, string) (caller, error) {
	system := silent()
	pid := system.Root.Spawn(answering())
	end := sync.OnceValue(func() error { return system.Root.StopFuture(pid).Wait() })
	return &actorCaller{system, pid, end}, nil
}
