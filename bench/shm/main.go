// Shm measures efactor's ping-pong over shared memory beside libfabric's: each round
// runs all systems once, one after the other, and the table has the medians.
//
//	go run ./shm -sizes 8,64k,1m -rounds 11
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/efactor/efactor/bench/internal/versus"
)

func main() {
	rounds := flag.Int("rounds", 7, "`times` that each system runs at each size")
	sizes := flag.String("sizes", "8,1m", "`list` of message sizes: bytes, k and m allowed")
	modes := flag.String("progress", "manual,pinned", "`list` of efactor's progress modes")
	scale := flag.Float64("scale", 1, "`factor` on the number of messages")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *scale, *sizes, strings.Split(*modes, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "shm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, scale float64, sizes string, modes []string) error {
	if rounds < 1 || scale <= 0 {
		return fmt.Errorf("nothing to do in %d rounds at scale %g", rounds, scale)
	}
	bytes, err := versus.ParseSizes(sizes)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "efactor-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	systems, err := prepare(ctx, dir, modes)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "bytes\tmessages\tsystem\tmedian us\tfastest\tslowest\tGB/s\tratio\t")
	for _, n := range bytes {
		messages := max(int(scale*float64(iterations(n))), 10)
		times := make([][]float64, len(systems))
		err := versus.Turns(rounds, len(systems), func(_, i int) error {
			us, err := systems[i].measure(ctx, n, messages)
			if err != nil {
				return fmt.Errorf("%s at %d B: %w", systems[i].name, n, err)
			}
			times[i] = append(times[i], us)
			return nil
		})
		if err != nil {
			return err
		}
		for i, s := range systems {
			t := versus.SpreadOf(times[i])
			ratio := "-"
			if systems[0].name == toolName {
				ratio = fmt.Sprintf("%.2f", t.Median/versus.SpreadOf(times[0]).Median)
			}
			fmt.Fprintf(w, "%d\t%d\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t\n", n, messages, s.name, t.Median,
				t.Min, t.Max, float64(n)/t.Median/1000, ratio)
		}
	}
	return w.Flush()
}

// prepare builds efactor's pingpong and lists what there is to measure, the one to
// compare with first.
func prepare(ctx context.Context, dir string, modes []string) ([]system, error) {
	var list []system
	if _, err := exec.LookPath(toolName); err == nil {
		list = append(list, system{toolName, tool})
	} else {
		fmt.Fprintln(os.Stderr, "shm: no fi_pingpong here (Debian: libfabric-bin), so there is nothing to compare with")
	}
	program := filepath.Join(dir, "pingpong")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/efactor/efactor/examples/pingpong")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build pingpong (in the directory bench): %w", err)
	}
	for _, m := range modes {
		list = append(list, system{"efactor " + m, ours(program, m)})
	}
	return list, nil
}

// iterations makes a run last some tenths of a second.
func iterations(size int) int { return max(min(100_000, 4<<30/max(size, 1)), 500) }
