// Collectives runs all collectives of package coll with several sizes, by every
// algorithm that there is, and checks each result against a serial reference.
//
//	go run ./examples/collectives              4 processes of this host
//	mpiexec -n 4 ./collectives                 what the launcher says
//	srun -n 4 ./collectives
//
// Rank 0 prints a table; the program fails if any rank has a wrong result.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/launch/local"
)

var (
	ranks   = flag.Int("n", 4, "how many processes, without a launcher")
	timeout = flag.Duration("timeout", 5*time.Minute, "most that all may take")
)

// sizes are the elements of a rank's part.
var sizes = []int{0, 1, 1000, 100_000}

func main() {
	flag.Parse()
	local.Run(*ranks, run)
}

func run(ctx context.Context, g *launch.Group) error {
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	c, err := coll.New(coll.Config{Endpoint: g.Endpoint, Rank: g.Rank, Peers: g.Peers})
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Printf("%d ranks, %s\n\n", c.Size(), g.Launcher)
	}
	err = checkAll(ctx, c)
	// Close waits for the others: errors must be sent before.
	if err != nil {
		c.Abort(err)
	}
	if e := c.Close(ctx); err == nil {
		err = e
	}
	return errors.Join(err, g.Endpoint.Shutdown(ctx))
}

// checkAll checks everything, and has rank 0 print what all have found.
func checkAll(ctx context.Context, c *coll.Comm) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	if c.Rank() == 0 {
		fmt.Fprintln(table, "collective\talgorithm\telements of a part\tresult")
	}
	bad := 0
	for _, k := range checks {
		for _, alg := range coll.Algorithms(k.name) {
			var wrong []string
			for _, n := range sizes {
				var right uint8
				if ok, err := k.check(ctx, c.With(coll.Use(alg)), n); err != nil {
					return fmt.Errorf("%s by %s, %d elements: %w", k.name, alg, n, err)
				} else if ok {
					right = 1
				}
				all := []uint8{right}
				if err := coll.Allreduce(ctx, c, all, all, coll.Min); err != nil {
					return err
				}
				if all[0] == 0 {
					wrong = append(wrong, fmt.Sprint(n))
				}
			}
			result := "ok"
			if len(wrong) > 0 {
				result = "WRONG at " + strings.Join(wrong, ", ")
				bad++
			}
			if c.Rank() == 0 {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", k.name, alg, strings.Trim(fmt.Sprint(sizes), "[]"), result)
			}
		}
	}
	if c.Rank() == 0 {
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d wrong results", bad)
	}
	return nil
}
