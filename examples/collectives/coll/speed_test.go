package coll_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/examples/collectives/coll"
)

func init() {
	jobs["speed"] = func(ctx context.Context, c *coll.Comm, arg string) error {
		var alg string
		var bytes, rounds int
		var plain bool
		if _, err := fmt.Sscan(arg, &alg, &bytes, &rounds, &plain); err != nil {
			return err
		}
		n := bytes / 4
		in, out := make([]float32, n), make([]float32, n)
		if !plain {
			var err error
			if in, err = coll.Alloc[float32](c, n); err != nil {
				return err
			}
			if out, err = coll.Alloc[float32](c, n); err != nil {
				return err
			}
		}
		for i := range in {
			in[i] = float32(i % 100)
		}
		v := c.With(coll.Use(alg))
		for range rounds/10 + 1 {
			if err := coll.Allreduce(ctx, v, in, out, coll.Sum); err != nil {
				return err
			}
		}
		if err := coll.Barrier(ctx, c); err != nil {
			return err
		}
		best := time.Duration(1 << 62)
		var all time.Duration
		for range 5 {
			began := time.Now()
			for range rounds {
				if err := coll.Allreduce(ctx, v, in, out, coll.Sum); err != nil {
					return err
				}
			}
			d := time.Since(began) / time.Duration(rounds)
			best = min(best, d)
			all += d
		}
		if c.Rank() == 0 {
			fmt.Printf("%v %v mean %v best %v: %.2f GB/s\n", c.Size(), arg, all/5, best, float64(bytes)/float64(best.Nanoseconds()))
		}
		return nil
	}
}

func TestSpeed(t *testing.T) {
	for _, x := range []struct {
		p   int
		arg string
	}{
		{2, "recursive-doubling 8 20000 true"},
		{2, "recursive-doubling 1024 20000 true"},
		{2, "recursive-doubling 65536 1000 true"},
		{2, "rabenseifner 65536 1000 false"},
		{2, "rabenseifner 1048576 200 false"},
		{2, "rabenseifner 16777216 20 false"},
		{2, "rabenseifner 16777216 20 true"},
		{2, "ring 16777216 20 false"},
		{4, "recursive-doubling 8 1000 true"},
		{4, "rabenseifner 16777216 5 false"},
		{4, "ring 16777216 5 false"},
		{4, "ring 16777216 5 true"},
	} {
		t.Run(strings.ReplaceAll(fmt.Sprint(x.p, " ", x.arg), " ", "_"), func(t *testing.T) {
			for i, p := range startProcesses(t, x.p, "speed", x.arg) {
				out, err := p.wait()
				require.NoError(t, err, out)
				if i == 0 {
					fmt.Print(out)
				}
			}
		})
	}
}
