package coll_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
)

// TestArguments: mistakes are reported at once, without a message, and do no harm.
func TestArguments(t *testing.T) {
	ctx := context.Background()
	three, four, ten := make([]int, 3), make([]int, 4), make([]int, 10)
	var none coll.Op[int]
	mistakes := map[string]func(c *coll.Comm) error{
		"root below":     func(c *coll.Comm) error { return coll.Bcast(ctx, c, three, -1) },
		"root above":     func(c *coll.Comm) error { return coll.Reduce(ctx, c, three, three, coll.Sum, 2) },
		"gather out":     func(c *coll.Comm) error { return coll.Gather(ctx, c, three, ten, c.Rank()) },
		"scatter in":     func(c *coll.Comm) error { return coll.Scatter(ctx, c, three, ten, c.Rank()) },
		"allgather out":  func(c *coll.Comm) error { return coll.Allgather(ctx, c, three, ten) },
		"alltoall odd":   func(c *coll.Comm) error { return coll.Alltoall(ctx, c, three, make([]int, 3)) },
		"alltoall out":   func(c *coll.Comm) error { return coll.Alltoall(ctx, c, four, ten) },
		"reduce out":     func(c *coll.Comm) error { return coll.Allreduce(ctx, c, three, four, coll.Sum) },
		"no operator":    func(c *coll.Comm) error { return coll.Allreduce(ctx, c, three, three, none) },
		"scan out":       func(c *coll.Comm) error { return coll.Scan(ctx, c, three, four, coll.Sum) },
		"reducescatter":  func(c *coll.Comm) error { return coll.ReduceScatter(ctx, c, three, four, nil, coll.Sum) },
		"too few counts": func(c *coll.Comm) error { return coll.Allgatherv(ctx, c, three, ten, []int{3}) },
		"counts below":   func(c *coll.Comm) error { return coll.Allgatherv(ctx, c, three, ten, []int{-1, 11}) },
		"counts overflow": func(c *coll.Comm) error {
			return coll.Allgatherv(ctx, c, three, ten, []int{1<<63 - 1, 1<<63 - 1})
		},
		"counts too many": func(c *coll.Comm) error { return coll.Gatherv(ctx, c, three, ten, []int{3, 8}, c.Rank()) },
		"counts too few":  func(c *coll.Comm) error { return coll.Scatterv(ctx, c, ten, []int{3, 3}, three, c.Rank()) },
		"not our count":   func(c *coll.Comm) error { return coll.Allgatherv(ctx, c, four, ten, []int{5, 5}) },
		"to itself": func(c *coll.Comm) error {
			return coll.Alltoallv(ctx, c, make([]int, 4), []int{2, 2}, ten, []int{5, 5})
		},
		"in place with others": func(c *coll.Comm) error {
			sends, receives := []int{1, 2}, []int{1, 2}
			receives[1-c.Rank()], receives[c.Rank()] = sends[c.Rank()], sends[1-c.Rank()]
			return coll.Alltoallv(ctx, c, three, sends, three, receives)
		},
		"overlap":       func(c *coll.Comm) error { return coll.Allreduce(ctx, c, ten[:4], ten[2:6], coll.Sum) },
		"not our place": func(c *coll.Comm) error { return coll.Allgather(ctx, c, ten[2:7], ten) },
		"pointers":      func(c *coll.Comm) error { return coll.Bcast(ctx, c, []string{"a"}, 0) },
		"a pointer within": func(c *coll.Comm) error {
			return coll.Bcast(ctx, c, make([]struct {
				a int
				b [2]struct{ p *int }
			}, 1), 0)
		},
		"no size":   func(c *coll.Comm) error { return coll.Bcast(ctx, c, make([]struct{}, 3), 0) },
		"not begun": func(c *coll.Comm) error { _, err := coll.Ibcast(ctx, c, three, 7); return err },
	}
	pa := newParty(t, 2, setup{seed: 1})
	err := pa.run(func(ctx context.Context, c *coll.Comm) error {
		for name, f := range mistakes {
			require.ErrorIs(t, f(c), efa.ErrInvalid, name)
		}
		sent, _ := pa.ranks[c.Rank()].sent.Value()
		require.Zero(t, sent)
		return coll.Barrier(ctx, c)
	})
	require.NoError(t, err)
}

func TestNewRefuses(t *testing.T) {
	ep := newParty(t, 1, setup{seed: 1}).ranks[0].ep
	for _, cfg := range []coll.Config{
		{},
		{Endpoint: ep},
		{Endpoint: ep, Peers: []efa.Addr{0}, Rank: 1},
		{Endpoint: ep, Peers: []efa.Addr{0}, Rank: -1},
	} {
		_, err := coll.New(cfg)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
}

func TestMemory(t *testing.T) {
	c := alone(t)
	a, err := coll.Alloc[float64](c, 1000)
	require.NoError(t, err)
	require.Len(t, a, 1000)
	b, err := coll.Alloc[affine](c, 1)
	require.NoError(t, err)
	empty, err := coll.Alloc[int](c, 0)
	require.NoError(t, err)
	require.NoError(t, coll.Free(c, empty))
	require.ErrorIs(t, coll.Free(c, a[1:]), efa.ErrInvalid)
	require.ErrorIs(t, coll.Free(c, make([]int, 3)), efa.ErrInvalid)
	require.NoError(t, coll.Free(c, a))
	require.ErrorIs(t, coll.Free(c, b[:0:0]), nil)
	for _, n := range []int{-1, 1 << 62} {
		_, err = coll.Alloc[int](c, n)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	_, err = coll.Alloc[string](c, 1)
	require.ErrorIs(t, err, efa.ErrInvalid)
} // b goes with the group
