package coll_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
)

// TestOverlappingGroups: on a grid of ranks rows, columns, diagonals and a copy of
// all work at the same time, one collective in each begun before any is waited for.
func TestOverlappingGroups(t *testing.T) {
	const side = 4
	for seed := range uint64(less(5)) {
		pa := newParty(t, side*side, setup{seed: seed})
		err := pa.run(func(ctx context.Context, c *coll.Comm) error {
			row, col := c.Rank()/side, c.Rank()%side
			var groups []*coll.Comm
			for _, color := range []int{row, col, (row + col) % side, 0, row % 2} {
				g, err := c.Split(ctx, color, -c.Rank())
				if err != nil {
					return err
				}
				groups = append(groups, g)
			}
			require.Equal(t, side-1-col, groups[0].Rank(), "the order is that of the keys")
			none, err := c.Split(ctx, row-1, 0)
			require.NoError(t, err)
			require.Equal(t, row == 0, none == nil, "a negative color")
			if none != nil {
				groups = append(groups, none)
			}
			for round := range 3 {
				var rs []*coll.Request
				var outs [][]int
				for i, g := range groups {
					out := make([]int, 2)
					outs = append(outs, out)
					r, err := coll.Iallreduce(ctx, g, []int{c.Rank(), 1 << (4 * i)}, out, coll.Sum)
					if err != nil {
						return err
					}
					rs = append(rs, r)
				}
				// Waited for in different orders.
				for k := range rs {
					if err := rs[(k*(row+1)+col)%len(rs)].Wait(ctx); err != nil {
						return err
					}
				}
				if err := coll.WaitAll(ctx, rs...); err != nil {
					return err
				}
				require.Equal(t, []int{side*side*row + side*(side-1)/2, side}, outs[0], "row, round %d", round)
				require.Equal(t, []int{side*col + side*side*(side-1)/2, side << 4}, outs[1], "column")
				require.Equal(t, []int{side * side * (side*side - 1) / 2, side * side << 12}, outs[3], "all")
			}
			for _, g := range groups {
				if err := g.Close(ctx); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// TestContextIds: groups that have a rank in common never have one id, ids are
// reused, and there is an error when there are no more.
func TestContextIds(t *testing.T) {
	pa := newParty(t, 3, setup{seed: 1})
	err := pa.run(func(ctx context.Context, c *coll.Comm) error {
		// Different ranks have different ids taken.
		pair, err := c.Split(ctx, map[int]int{0: 0, 1: 0, 2: -1}[c.Rank()], 0)
		require.NoError(t, err)
		other, err := c.Split(ctx, map[int]int{0: -1, 1: 0, 2: 0}[c.Rank()], 0)
		require.NoError(t, err)
		if c.Rank() == 1 {
			require.NotEqual(t, pair.ID(), other.ID())
		}
		all, err := c.Split(ctx, 0, c.Rank())
		require.NoError(t, err)
		for _, g := range []*coll.Comm{pair, other} {
			if g != nil {
				require.NotEqual(t, g.ID(), all.ID())
				require.NoError(t, g.Close(ctx))
			}
		}
		first := all.ID()
		require.NoError(t, all.Close(ctx))
		require.ErrorContains(t, coll.Barrier(ctx, all), "closed")
		require.NoError(t, all.Close(ctx), "again")

		seen := map[uint64]bool{}
		var open []*coll.Comm
		coll.LeaveContexts(c, 10)
		for {
			g, err := c.Split(ctx, 0, c.Rank())
			if err != nil {
				require.ErrorIs(t, err, coll.ErrNoContext)
				break
			}
			require.False(t, seen[g.ID()], "%d twice", g.ID())
			seen[g.ID()] = true
			open = append(open, g)
		}
		require.Len(t, open, 10)
		require.True(t, seen[first], "used again")
		for _, g := range open {
			require.NoError(t, g.Close(ctx))
		}
		return nil
	})
	require.NoError(t, err)
}

// TestTwoSplitsAtOnce: agreements about context ids on groups that have ranks in
// common meet.
func TestTwoSplitsAtOnce(t *testing.T) {
	for seed := range uint64(less(20)) {
		pa := newParty(t, 4, setup{seed: seed})
		err := pa.run(func(ctx context.Context, c *coll.Comm) error {
			a, err := c.Split(ctx, 0, c.Rank())
			require.NoError(t, err)
			b, err := c.Split(ctx, 0, c.Rank())
			require.NoError(t, err)
			results := make(map[*coll.Comm]*coll.Comm)
			done := 0
			for _, g := range []*coll.Comm{a, b} {
				pa.ranks[c.Rank()].cfg.Go(func() {
					d, err := g.Split(ctx, 0, g.Rank())
					require.NoError(t, err)
					results[g] = d
					done++
				})
			}
			for done < 2 {
				if err := pa.world.Sleep(1000); err != nil {
					return err
				}
			}
			require.NotEqual(t, results[a].ID(), results[b].ID())
			for _, g := range []*coll.Comm{a, b, results[a], results[b]} {
				require.NoError(t, coll.Barrier(ctx, g))
				require.NoError(t, g.Close(ctx))
			}
			return nil
		})
		require.NoError(t, err)
	}
}
