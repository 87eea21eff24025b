package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/sys"
)

func TestModeNames(t *testing.T) {
	for _, m := range []Mode{Auto, Pinned, Manual} {
		got, err := ParseMode(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	_, err := ParseMode("turbo")
	require.ErrorContains(t, err, "turbo")
	require.Equal(t, "Mode(9)", Mode(9).String())
}

func TestAutoMode(t *testing.T) {
	for _, c := range []struct {
		mode        Mode
		cpus, procs int
		want        Mode
		why         string
	}{
		{Auto, 2, 2, Manual, "2 CPUs"},
		{Auto, 3, 8, Manual, "3 CPUs"},
		{Auto, 64, 2, Manual, "GOMAXPROCS 2"},
		{Auto, 4, 3, Pinned, "4 CPUs"},
		{Pinned, 1, 1, Pinned, "configured"},
		{Manual, 64, 64, Manual, "configured"},
	} {
		got, why := c.mode.resolve(c.cpus, c.procs)
		require.Equal(t, c.want, got, c)
		require.Contains(t, why, c.why)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{Mode: 9, Spin: -1, Yield: -1, Grace: -time.Second, PinCPU: []int{-3}})
	for _, part := range []string{"mode 9", "Spin", "Grace", "PinCPU -3"} {
		require.ErrorContains(t, err, part)
	}
	s, err := New(Config{External: true})
	require.NoError(t, err)
	require.Equal(t, Manual, s.Mode())
	require.Contains(t, s.ModeReason(), "external")
	require.NoError(t, s.Close())
}

func TestChoices(t *testing.T) {
	var allowed sys.CPUSet
	for _, cpu := range []int{0, 2, 65} {
		allowed.Set(cpu)
	}
	require.Equal(t, []int{65, 2, 0}, choices(&allowed, nil))
	require.Equal(t, []int{2, 65}, choices(&allowed, []int{2, 1, 65}))
	require.Empty(t, choices(&allowed, []int{1}))
}

// TestOneActorSystem: all shards share one system, which goes with the last.
func TestOneActorSystem(t *testing.T) {
	a, err := New(Config{External: true})
	require.NoError(t, err)
	b, err := New(Config{External: true})
	require.NoError(t, err)
	require.Same(t, a.root.system, b.root.system)
	require.NoError(t, a.Close())
	require.NotNil(t, sharedSystem.system)
	require.NoError(t, b.Close())
	require.Nil(t, sharedSystem.system)
}

func TestRingGrowsInOrder(t *testing.T) {
	m := new(mailbox)
	var r ring
	in, out := 0, 0
	for round := range 50 {
		for range 20 * (round % 13) {
			r.push(m, in, laneRef)
			in++
		}
		for range r.len() / 2 {
			_, got, _ := r.pop()
			require.Equal(t, out, got)
			out++
		}
	}
	for r.len() > 0 {
		_, got, _ := r.pop()
		require.Equal(t, out, got)
		out++
	}
	require.Equal(t, in, out)
	require.Greater(t, len(r.buf), minRing)
	r.trim(minRing)
	require.Empty(t, r.buf)
	r.push(m, 1, laneRef)
	require.Equal(t, 1, r.len())
}
