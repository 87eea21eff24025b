package shard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/shard"
)

// TestTurnTime: TurnTime reads the clock once in each turn that calls it; Now is read
// every few turns.
func TestTurnTime(t *testing.T) {
	s, err := shard.New(shard.Config{External: true, Seed: 1})
	require.NoError(t, err)
	require.True(t, s.Adopt())
	s.Turn()
	began := s.Now()
	coarse := 0
	for range 8 {
		s.Turn()
		if s.Now() == began {
			coarse++
		}
	}
	require.Positive(t, coarse, "turns without a reading")
	last := s.TurnTime()
	require.Equal(t, last, s.TurnTime())
	require.Equal(t, last, s.Now())
	for range 100 {
		s.Turn()
		now := s.TurnTime()
		require.Greater(t, now, last)
		require.Equal(t, now, s.TurnTime())
		last = now
	}
	s.Release()
	require.NoError(t, s.Close())
}
