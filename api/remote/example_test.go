package remote_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/remote"
)

// Question is sent as JSON; protobuf messages need no codec.
type Question struct{ Name string }

// Answer likewise.
type Answer struct{ Text string }

// Two actor systems, each usually in a process of its own.
func ExampleConfig_Listen() {
	ctx := context.Background()
	quiet := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) })
	cfg := remote.Config{Codecs: []remote.Codec{remote.JSON(&Question{}, &Answer{})}}
	var systems [2]*actor.ActorSystem
	var remotes [2]*remote.Remote
	for i := range systems {
		systems[i] = actor.NewActorSystem(quiet)
		r, err := cfg.Listen(ctx, systems[i], "")
		if err != nil {
			log.Fatal(err)
		}
		defer r.Close(ctx)
		remotes[i] = r
	}
	greeter, err := systems[1].Root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
		if q, ok := c.Message().(*Question); ok {
			c.Respond(&Answer{"hello, " + q.Name})
		}
	}), "greeter")
	if err != nil {
		log.Fatal(err)
	}
	there := actor.NewPID(systems[1].Address(), greeter.Id)
	answer, err := systems[0].Root.RequestFuture(there, &Question{"world"}, time.Minute).Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.(*Answer).Text)
	fmt.Println(remotes[1].Stats().Received, remotes[1].Stats().Undecodable)
	// Output:
	// hello, world
	// 1 0
}

// Actors of all ranks of a job, over the endpoint of its group.
func ExampleStart() {
	ctx := context.Background()
	g, err := launch.Config{Launcher: "alone", Logger: slog.New(slog.DiscardHandler)}.Init(ctx) // launch.Init(ctx) finds the launcher
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	quiet := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })
	system := actor.NewActorSystem(quiet)
	r, err := remote.Start(system, g)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	fmt.Println(system.Address() == g.Addresses[g.Rank].String())
	// Output: true
}
