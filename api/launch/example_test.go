package launch_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"

	"github.com/efactor/efactor/api/launch"
)

// Under a launcher (mpirun, srun, torchrun, Kubernetes) these lines are the same in each process;
// without one a process is alone.
func ExampleConfig_Init() {
	ctx := context.Background()
	g, err := launch.Config{Launcher: "alone", Logger: slog.New(slog.DiscardHandler)}.Init(ctx) // launch.Init(ctx) finds the launcher
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	right := g.Peers[(g.Rank+1)%g.Size]
	if err := g.Endpoint.Send(ctx, right, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 8)
	m, err := g.Endpoint.Recv(ctx, buf)
	fmt.Printf("rank %d of %d: %s, %v\n", g.Rank, g.Size, buf[:m.N], err)
	// Output: rank 0 of 1: hello, <nil>
}

// The board of a job, for programs that open their endpoints themselves.
func ExampleJob() {
	ctx := context.Background()
	j, err := launch.Join(ctx, launch.Config{Launcher: "alone", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	all, err := j.Allgather(ctx, fmt.Appendf(nil, "address of rank %d", j.Rank))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", all[0])

	if err := j.Put(ctx, "leader", []byte("rank 0")); err != nil { // by one rank
		log.Fatal(err)
	}
	if err := j.Fence(ctx); err != nil {
		log.Fatal(err)
	}
	leader, err := j.Get(ctx, "leader")
	fmt.Printf("%s %v\n", leader, err)
	j.Abort(errors.New("that is all"))
	// Output:
	// address of rank 0
	// rank 0 <nil>
}

// Flags for what the environment says otherwise.
func ExampleConfig_AddFlags() {
	cfg := launch.Config{Size: 1}
	flags := flag.NewFlagSet("program", flag.ContinueOnError)
	cfg.AddFlags(flags)
	err := flags.Parse([]string{"-launch.rank", "3", "-launch.size", "8", "-launch.device", "shm"})
	fmt.Println(cfg.Rank, cfg.Size, cfg.Fabric.DeviceName, err)
	// Output: 3 8 shm <nil>
}
