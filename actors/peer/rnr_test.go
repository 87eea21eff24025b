package peer

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoff(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const us = time.Microsecond
	fixed := Backoff{Initial: 100 * us, Max: 650 * us}
	var got []time.Duration
	for range 5 {
		got = append(got, fixed.Next(rng))
	}
	fixed.Reset()
	got = append(got, fixed.Next(rng), fixed.Next(rng))
	require.Equal(t, []time.Duration{100 * us, 200 * us, 400 * us, 650 * us, 650 * us, 100 * us, 200 * us}, got)

	// libfabric's draw: 40 us for a third of the time, else up to 119.
	seen := map[time.Duration]int{}
	for range 10000 {
		b := Backoff{Max: time.Second}
		d := b.Next(rng)
		require.GreaterOrEqual(t, d, 40*us)
		require.Less(t, d, 120*us)
		require.Equal(t, 2*d, b.Next(rng))
		seen[d]++
	}
	require.Len(t, seen, 80)
	require.Greater(t, seen[40*us], 3000)

	low := Backoff{Max: 10 * us}
	require.Equal(t, 10*us, low.Next(rng), "the limit holds for the first draw too")
}
