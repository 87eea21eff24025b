package coll_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
)

// TestRanks compares sets with lists that are searched from end to end.
func TestRanks(t *testing.T) {
	for seed := range uint64(200) {
		d := rand.New(rand.NewPCG(seed, 4))
		sets, lists := make([]*coll.Ranks, 3), make([][]int, 3)
		for i := range sets {
			sets[i] = coll.NewRanks()
		}
		for range 60 {
			i, r := d.IntN(2), d.IntN(20)
			if d.IntN(3) > 0 {
				fresh := !slices.Contains(lists[i], r)
				if fresh {
					lists[i] = append(lists[i], r)
				}
				require.Equal(t, fresh, sets[i].Insert(r))
			} else {
				at := slices.Index(lists[i], r)
				if at >= 0 {
					lists[i] = slices.Delete(slices.Clone(lists[i]), at, at+1)
				}
				require.Equal(t, at >= 0, sets[i].Remove(r))
			}
		}
		a, b := lists[0], lists[1]
		both, only := []int{}, []int{}
		for _, r := range a {
			if slices.Contains(b, r) {
				both = append(both, r)
			} else {
				only = append(only, r)
			}
		}
		union := slices.Clone(a)
		for _, r := range b {
			if !slices.Contains(a, r) {
				union = append(union, r)
			}
		}
		same := func(want []int, s *coll.Ranks) {
			t.Helper()
			require.ElementsMatch(t, want, s.All())
			require.True(t, slices.Equal(want, s.All()), "%v, not %v", s.All(), want)
			require.Equal(t, len(want), s.Len())
			for r := range 21 {
				require.Equal(t, slices.Index(want, r), s.Index(r))
				require.Equal(t, slices.Contains(want, r), s.Has(r))
			}
		}
		same(both, sets[0].Intersect(sets[1]))
		same(only, sets[0].Difference(sets[1]))
		same(union, sets[0].Union(sets[1]))
		c := sets[0].Clone()
		c.Insert(20)
		same(a, sets[0])
		same(b, sets[1])
	}
	require.Equal(t, []int{3, 1, 2}, coll.NewRanks(3, 1, 3, 2, 1).All())
	s, err := coll.Every(3, 1, 8)
	require.NoError(t, err)
	require.Equal(t, []int{1, 4, 7}, s.All())
	s, err = coll.Every(math.MaxInt, 2, math.MaxInt)
	require.NoError(t, err)
	require.Equal(t, []int{2}, s.All())
	for _, bad := range [][3]int{{0, 0, 1}, {1, -1, 1}, {1, 2, 1}} {
		_, err := coll.Every(bad[0], bad[1], bad[2])
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
}

// TestGroupOfRanks: each rank has its place in the set as its rank; sets without a common
// rank become groups in one call, and who is in none has none.
func TestGroupOfRanks(t *testing.T) {
	pa := newParty(t, 7, setup{seed: 3})
	require.NoError(t, pa.run(func(ctx context.Context, c *coll.Comm) error {
		evens, err := coll.Every(2, 0, 5)
		require.NoError(t, err)
		mine, sum := coll.NewRanks(5, 1, 3), 9
		if evens.Has(c.Rank()) {
			mine, sum = evens, 6
		}
		g, err := c.Group(ctx, mine)
		if err != nil {
			return err
		}
		if c.Rank() == 6 {
			require.Nil(t, g)
			return nil
		}
		require.Equal(t, mine.Index(c.Rank()), g.Rank())
		require.Equal(t, 3, g.Size())
		out := make([]int, 1)
		if err := coll.Allreduce(ctx, g, []int{c.Rank()}, out, coll.Sum); err != nil {
			return err
		}
		require.Equal(t, sum, out[0])
		_, err = g.Group(ctx, coll.NewRanks(0, 3))
		require.ErrorIs(t, err, efa.ErrInvalid)
		return g.Close(ctx)
	}))
}
