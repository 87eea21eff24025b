package coll_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
)

// TestMessages: the algorithms send as many messages as they are known for.
func TestMessages(t *testing.T) {
	for _, x := range []struct {
		kind, alg   string
		five, eight uint64 // with as many ranks, of all ranks together
	}{
		{"barrier", "dissemination", 5 * 3, 8 * 3},
		{"bcast", "binomial", 4, 7},
		{"bcast", "scatter-allgather", 4 + 5*4, 7 + 8*7},
		{"bcast", "pipeline", 4, 7},
		{"gather", "binomial", 4, 7},
		{"gather", "linear", 4, 7},
		{"scatter", "binomial", 4, 7},
		{"scatter", "linear", 4, 7},
		{"allgather", "ring", 5 * 4, 8 * 7},
		{"allgather", "bruck", 5 * 3, 8 * 3},
		{"allgather", "recursive-doubling", 5 * 3, 8 * 3}, // of 5: what fits instead
		{"alltoall", "pairwise", 5 * 4, 8 * 7},
		{"alltoall", "bruck", 5 * 3, 8 * 3},
		{"reduce", "binomial", 4, 7},
		{"reduce", "rabenseifner", 1 + 4*2 + 4, 8*3 + 7},
		{"allreduce", "recursive-doubling", 2 + 4*2, 8 * 3},
		{"allreduce", "rabenseifner", 2 + 2*4*2, 2 * 8 * 3},
		{"allreduce", "ring", 2 * 5 * 4, 2 * 8 * 7},
		{"reducescatter", "pairwise", 5 * 4, 8 * 7},
		{"reducescatter", "ring", 5 * 4, 8 * 7},
		{"reducescatter", "recursive-halving", 5 * 4, 8 * 3},
		{"reducescatter", "reduce-scatterv", 2 * 4, 2 * 7},
		{"scan", "recursive-doubling", 8 + 2, 8 * 3},
		{"scan", "linear", 4, 7},
	} {
		for p, want := range map[int]uint64{5: x.five, 8: x.eight} {
			t.Run(fmt.Sprintf("%s/%s/%d", x.kind, x.alg, p), func(t *testing.T) {
				pa := newParty(t, p, setup{seed: 1})
				tr := trial{kind: x.kind, seed: 1, n: 800, opts: []coll.Option{coll.Use(x.alg)}}
				var sent uint64
				err := pa.run(func(ctx context.Context, c *coll.Comm) error {
					before, _ := pa.ranks[c.Rank()].sent.Value()
					p, err := kinds[1].begin(ctx, c, tr, true)
					if err != nil {
						return err
					}
					if err := pa.world.Sleep(1e9); err != nil { // until all have been counted
						return err
					}
					after, failed := pa.ranks[c.Rank()].sent.Value()
					require.Zero(t, failed)
					sent += after - before
					return p.wait(ctx)
				})
				require.NoError(t, err)
				require.Equal(t, want, sent)
			})
		}
	}
}
