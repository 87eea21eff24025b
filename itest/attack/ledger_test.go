package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLedger: what is lost, received twice or changed is noticed; what failed may be missing.
func TestLedger(t *testing.T) {
	s := stream{1, 2, 3, 4}
	got := gotLog{Stream: s}
	for _, n := range []uint64{0, 1, 3, 6} {
		require.NoError(t, got.take(n))
	}
	require.Equal(t, []uint64{2, 4, 5}, got.Missed)
	require.ErrorIs(t, got.take(6), errOrder)
	require.ErrorIs(t, got.take(4), errOrder)
	require.Error(t, got.take(mostMissed+10))
	sent := sentLog{Stream: s, N: 8, Failed: []uint64{2, 3, 5}}
	require.Equal(t, []uint64{4, 7}, sent.lost(&got))

	b := make([]byte, 100)
	s.seal(b, 77)
	back, seq, err := unseal(b)
	require.NoError(t, err)
	require.Equal(t, s, back)
	require.EqualValues(t, 77, seq)
	for i := range b {
		b[i] ^= 4
		_, _, err := unseal(b)
		require.ErrorIs(t, err, errGarbled, "byte %d", i)
		b[i] ^= 4
	}
	_, _, err = unseal(b[:99])
	require.ErrorIs(t, err, errGarbled)
	_, _, err = unseal(nil)
	require.ErrorIs(t, err, errGarbled)
}
