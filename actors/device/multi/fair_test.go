package multi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/multi"
)

// quietPair is a queue pair whose second path has been quiet for this many polls.
func quietPair(t *testing.T, polls int) (qp device.QP, a, b *fakeQP) {
	x, y, _ := pair()
	d, err := multi.Open(x, y)
	require.NoError(t, err)
	qp, err = d.OpenQP(device.QPConfig{})
	require.NoError(t, err)
	for range polls {
		require.Zero(t, qp.Poll(make([]device.Completion, 4)))
	}
	return qp, x.qps[0], y.qps[0]
}

// pollsUntil floods the first path with this many completions per poll, and returns the
// number of polls until one of the second arrives.
func pollsUntil(t *testing.T, quiet, flood int) int {
	qp, a, b := quietPair(t, quiet)
	b.comps = []device.Completion{{Op: device.OpSend, ID: 77}}
	c := make([]device.Completion, 4)
	for n := range 1000 {
		a.comps = make([]device.Completion, flood)
		for i := range a.comps {
			a.comps[i].Op = device.OpSend
		}
		for i := range c[:qp.Poll(c)] {
			if c[i].ID == 77 {
				return n + 1
			}
		}
	}
	return 0
}

// TestNoStarvation: a path that was quiet for however long is heard soon, and the sooner
// the more the other has, also when that fills every poll.
func TestNoStarvation(t *testing.T) {
	for quiet := range 200 {
		for flood, most := range map[int]int{0: 16, 1: 9, 3: 6, 4: 6, 9: 6} {
			n := pollsUntil(t, quiet, flood)
			require.Positive(t, n, "%d quiet polls, then %d a poll: never", quiet, flood)
			require.LessOrEqual(t, n, most, "%d quiet polls, then %d a poll", quiet, flood)
		}
	}
}

// TestNoRoomIsNoQuiet: a path that there was no room for is not taken for a quiet one.
func TestNoRoomIsNoQuiet(t *testing.T) {
	for polls := range 200 {
		qp, _, b := quietPair(t, 0)
		for range polls {
			require.Zero(t, qp.Poll(nil))
		}
		b.comps = []device.Completion{{Op: device.OpSend}}
		require.Equal(t, 1, qp.Poll(make([]device.Completion, 1)))
	}
}

// TestArmEndsRest: a woken owner polls all paths, also those at rest.
func TestArmEndsRest(t *testing.T) {
	for quiet := range 100 {
		qp, _, b := quietPair(t, quiet)
		require.True(t, qp.Arm())
		b.comps = []device.Completion{{Op: device.OpSend}}
		require.Equal(t, 1, qp.Poll(make([]device.Completion, 4)))
	}
}
