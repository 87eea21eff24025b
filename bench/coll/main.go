// Coll measures the collectives of api/coll, in the look of nccl-tests:
// sizes, algorithm, times, algorithm and bus bandwidth, and how many elements were wrong.
//
//	go run ./coll                                  Allreduce, 8 B to 16 MiB, 2 processes of its own
//	go run ./coll -op all -ranks 4 -png coll.png
//	mpiexec -n 4 ./coll -op alltoall -json         or srun, torchrun, ...
//	go run ./coll -mpich                           beside MPICH, in turns
//
// README.md of the module describes what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/efactor/efactor/api/launch/local"
)

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "coll: %v\n-h lists the flags\n", err)
		os.Exit(2)
	}
	if !o.mpich {
		local.Main(o.ranks, func(ctx context.Context) error { return o.rank(ctx, os.Stdout) })
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	self, err := os.Executable()
	if err == nil {
		err = o.versus(ctx, os.Stdout, self, contests)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "coll:", err)
		os.Exit(1)
	}
}
