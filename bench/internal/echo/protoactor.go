package echo

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
)

const actorName = "echo"

// node is a process of protoactor's remote, which speaks gRPC streams.
func node() (*actor.ActorSystem, *remote.Remote) {
	system := silent()
	r := remote.NewRemote(system, remote.Configure("127.0.0.1", 0))
	r.Start()
	return system, r
}

func serveProtoactor(ctx context.Context, _ Plan, ready func(string)) error {
	system, r := node()
	defer r.Shutdown(false)
	if _, err := system.Root.SpawnNamed(answering(), actorName); err != nil {
		return err
	}
	ready(system.Address())
	<-ctx.Done()
	return nil
}

func dialProtoactor(_ context.Context, _ Plan, addr string) (caller, error) {
	system, r := node()
	end := func() error {
		r.Shutdown(false)
		return nil
	}
	return &actorCaller{system, actor.NewPID(addr, actorName), end}, nil
}
