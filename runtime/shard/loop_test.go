package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

// TestYield: an idle loop polls for Spin, then for Yield while it gives its CPU away, and then
// sleeps. After a yield that took long a number of sleeps come right after Spin.
func TestYield(t *testing.T) {
	const spin, yield = 2 * time.Microsecond, time.Millisecond
	i, c := idling{spin: spin, yield: yield}, newShardClock(clock.System)
	after := func(d time.Duration) (sleeps bool) {
		i.reset()
		for range idleTurns {
			require.False(t, i.longEnough(&c))
		}
		c.now = i.since.Add(d)
		return i.longEnough(&c)
	}
	assert.False(t, after(spin-1))
	assert.False(t, i.yields)
	assert.False(t, after(spin))
	assert.True(t, i.yields)
	assert.False(t, after(spin+yield-1))
	assert.True(t, i.yields)
	assert.True(t, after(spin+yield))
	assert.False(t, i.yields)

	assert.False(t, after(spin))
	i.away(longYield)
	assert.True(t, i.yields, "that is not long")
	i.away(longYield + 1)
	assert.False(t, i.yields)
	for n := range keepOff {
		require.True(t, after(spin), "sleep %d", n)
	}
	assert.False(t, after(spin))
	assert.True(t, i.yields)

	i.yield = 0
	assert.True(t, after(spin), "no Yield is wanted")
}

// TestYieldAlone: a loop with Yield and no Spin gives its CPU away after crowdedTurns.
func TestYieldAlone(t *testing.T) {
	cfg := Config{Yield: time.Millisecond}
	require.NoError(t, cfg.validate())
	require.Zero(t, cfg.Spin)
	i, c := idling{spin: cfg.Spin, yield: cfg.Yield}, newShardClock(clock.System)
	for range crowdedTurns {
		require.False(t, i.longEnough(&c))
		require.False(t, i.yields)
	}
	require.False(t, i.longEnough(&c))
	require.True(t, i.yields)
	c.now = i.since.Add(cfg.Yield)
	require.True(t, i.longEnough(&c))
}
