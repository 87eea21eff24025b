package coll_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/examples/collectives/coll"
)

func TestFirst(t *testing.T) {
	for _, p := range []int{1, 2, 3, 4, 5, 7, 8, 16} {
		pa := newParty(t, p, setup{seed: 1})
		err := pa.run(func(ctx context.Context, c *coll.Comm) error {
			out := make([]float64, 3)
			in := []float64{float64(c.Rank()), 1, 2}
			if err := coll.Allreduce(ctx, c, in, out, coll.Sum); err != nil {
				return err
			}
			require.Equal(t, []float64{float64(p*(p-1)) / 2, float64(p), 2 * float64(p)}, out)
			r, err := coll.Ibarrier(ctx, c)
			if err != nil {
				return err
			}
			d, err := c.Dup(ctx)
			if err != nil {
				return err
			}
			if err := r.Wait(ctx); err != nil {
				return err
			}
			return d.Close(ctx)
		})
		require.NoError(t, err)
	}
}
