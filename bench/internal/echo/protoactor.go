package echo

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const actorName = "echo"

// node is a process of protoactor's remote, which speaks gRPC streams.
func node() (*actor.ActorSystem, *remote.Remote) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	r := remote.NewRemote(system, remote.Configure("127.0.0.1", 0))
	r.Start()
	return system, r
}

func serveProtoactor(ctx context.Context, ready func(string)) error {
	system, r := node()
	defer r.Shutdown(false)
	props := actor.PropsFromFunc(func(c actor.Context) {
		if m, ok := c.Message().(*wrapperspb.BytesValue); ok {
			c.Respond(m)
		}
	})
	if _, err := system.Root.SpawnNamed(props, actorName); err != nil {
		return err
	}
	ready(system.Address())
	<-ctx.Done()
	return nil
}

type protoactorCaller struct {
	remote *remote.Remote
	system *actor.ActorSystem
	pid    *actor.PID
}

func dialProtoactor(_ context.Context, addr string) (caller, error) {
	system, r := node()
	return &protoactorCaller{r, system, actor.NewPID(addr, actorName)}, nil
}

func (c *protoactorCaller) call(_ context.Context, question []byte) ([]byte, error) {
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

func (c *protoactorCaller) close() error {
	c.remote.Shutdown(false)
	return nil
}
