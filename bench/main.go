// Bench measures efactor beside its peers on one machine, in turns, and prints how they
// compare.
//
//	go run .                       everything, in less than 15 minutes
//	go run . -short                the most important of it, in less than 2
//	go run . -cases 'latency/shm'  what matches; -list names all
//	go run . -json -png plots      an object a line; and diagrams
//	go run . -waiting              what waiting costs, over five runs
//	go run . -merge *.jsonl        what several runs came to, which is what to quote
//
// README.md of the module says what is measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/merge"
)

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "bench: %v\n-h lists the flags\n", err)
		os.Exit(2)
	}
	if o.job != "" {
		job.Main(o.job)
	}
	if o.merge {
		err = o.merged(os.Stdout)
	} else {
		err = measure(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(o *options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return o.run(ctx, os.Stdout, os.Stderr)
}

// merged sums up the runs in the files.
func (o *options) merged(out io.Writer) error {
	runs, err := merge.ReadFiles(o.files)
	if err != nil {
		return err
	}
	return merge.Write(out, runs, o.cases, o.aims())
}
