package coll_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
)

// TestInPlaceByTurns: calls follow each other in which another rank works in place each
// time.
func TestInPlaceByTurns(t *testing.T) {
	for _, ranks := range []int{2, 4, 8} {
		for _, n := range []int{1, 3, 100} { // 100 are more than lie in the call
			t.Run(fmt.Sprintf("%d ranks/%d", ranks, n), func(t *testing.T) {
				pa := newParty(t, ranks, setup{seed: 3})
				require.NoError(t, pa.run(func(ctx context.Context, c *coll.Comm) error {
					in, out := make([]int64, n), make([]int64, n)
					for round := range 2 * ranks {
						for i := range in {
							in[i] = int64(c.Rank()*round + i)
						}
						to := out
						if round%ranks == c.Rank() {
							to = in
						}
						if err := coll.Allreduce(ctx, c, in, to, coll.Sum); err != nil {
							return err
						}
						for i, v := range to {
							assert.Equal(t, int64(ranks*(ranks-1)/2*round+ranks*i), v, "round %d", round)
						}
					}
					return nil
				}))
			})
		}
	}
}

// TestMismatchAfterMatches: calls that do not fit together fail, also after some that did.
func TestMismatchAfterMatches(t *testing.T) {
	for name, n := range map[string]int{"fewer": 1, "more": 3} {
		t.Run(name, func(t *testing.T) {
			pa := newParty(t, 4, setup{seed: 5})
			require.NoError(t, pa.runAll(func(ctx context.Context, c *coll.Comm) error {
				in, out := make([]int64, 3), make([]int64, 3)
				for range 3 {
					if err := coll.Allreduce(ctx, c, in[:2], out[:2], coll.Sum); err != nil {
						return err
					}
				}
				m := 2
				if c.Rank() == 1 {
					m = n
				}
				err := coll.Allreduce(ctx, c, in[:m], out[:m], coll.Sum)
				if !errors.Is(err, coll.ErrMismatch) {
					return fmt.Errorf("rank %d: %w", c.Rank(), err)
				}
				return nil
			}, true))
		})
	}
}

// TestCanceledAfterMatches: a context that has ended fails the group, also after calls that
// succeeded.
func TestCanceledAfterMatches(t *testing.T) {
	pa := newParty(t, 2, setup{seed: 7})
	require.NoError(t, pa.runAll(func(ctx context.Context, c *coll.Comm) error {
		in, out := []int64{1}, []int64{0}
		for range 3 {
			if err := coll.Allreduce(ctx, c, in, out, coll.Sum); err != nil {
				return err
			}
		}
		if c.Rank() == 1 {
			var cancel func()
			ctx, cancel = context.WithCancel(ctx)
			cancel()
		}
		err := coll.Allreduce(ctx, c, in, out, coll.Sum)
		var at *coll.RankError
		if !errors.As(err, &at) || at.Rank != 1 || !errors.Is(err, coll.ErrAborted) {
			return fmt.Errorf("rank %d: %w", c.Rank(), err)
		}
		return nil
	}, true))
}
