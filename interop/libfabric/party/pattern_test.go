package party_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// TestBuffer: the pattern runs over the pieces, and errors are found at their place.
func TestBuffer(t *testing.T) {
	for _, size := range []int{0, 1, 3, 250, 251, 252, 10000} {
		for pieces := 1; pieces <= 3; pieces++ {
			b := party.NewBuffer(make([]byte, party.Room(size, pieces)), size, pieces)
			require.Equal(t, party.Content{Seed: -1, Bad: -1, Over: -1}, b.Inspect(0), "nothing came")
			b.Fill(300)
			require.NoError(t, b.Inspect(size).Whole(300, size))
			if size == 0 {
				continue
			}
			require.Error(t, b.Inspect(size).Whole(301, size), "another seed")
			require.GreaterOrEqual(t, b.Inspect(size-1).Over, 0, "one byte more than was said")
			if size > 1 {
				last := b.Pieces[pieces-1]
				last[len(last)-1]++
				require.Equal(t, size-1, b.Inspect(size).Bad)
			}
		}
	}
}

// TestGuards: a byte beside any piece is noticed.
func TestGuards(t *testing.T) {
	const size, pieces = 90, 3
	for i := range party.Room(size, pieces) {
		mem := make([]byte, party.Room(size, pieces))
		b := party.NewBuffer(mem, size, pieces)
		b.Fill(1)
		mem[i] ^= 0x80
		require.Error(t, b.Inspect(size).Whole(1, size), "byte %d", i)
	}
}

func TestInspect(t *testing.T) {
	p := make([]byte, 600)
	party.Clear(p)
	require.True(t, party.Inspect(p).Untouched)
	require.Error(t, party.Inspect(p).Whole(1, 600))
	party.Fill(p, 0, 250)
	require.NoError(t, party.Inspect(p).Whole(250, 600))
	p[599] = party.Untouched
	require.Equal(t, 599, party.Inspect(p).Bad)
	require.NoError(t, party.Inspect(nil).Whole(5, 0))
}

func TestPlan(t *testing.T) {
	seen := map[party.Planned]int{}
	for k := range uint64(1000) {
		p := party.MakePlan(1, k, 5000, 100)
		require.LessOrEqual(t, p.Size, 5000)
		require.False(t, p.Inject && (p.Size > 100 || p.Delivered || p.Pieces > 1))
		require.LessOrEqual(t, p.Pieces, max(p.Size, 1), "pieces of nothing")
		seen[p.What]++
	}
	for _, w := range []party.Planned{party.PlanMessage, party.PlanTagged, party.PlanWrite, party.PlanAdd} {
		require.Greater(t, seen[w], 40, "%d", w)
	}
	require.NotEqual(t, party.Sum(1, 10, 100, 10), party.Sum(2, 10, 100, 10))
}

func TestPending(t *testing.T) {
	p := party.NewPending(1, party.Op{Kind: party.Take})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	p.Resolve(party.Outcome{Errno: 7, Text: "x"}, nil)
	p.Resolve(party.Outcome{}, nil)
	out, err := p.Wait(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, out.Err(), "errno 7")
	require.Equal(t, "take of 0 bytes", p.Op.String())
}
