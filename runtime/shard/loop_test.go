package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/sys"
)

// waiter is an idle loop in a test: its turns find nothing, and take no time.
type waiter struct {
	idling
	c shardClock
}

func newWaiter() *waiter {
	return &waiter{idling{spin: DefaultSpin, asked: never, queue: mostAsked}, newShardClock(clock.System)} // it asks no host
}

// wait begins a wait and ends after that many turns. It returns after which turn the loop would yield, and after
// which it would sleep; 0: not.
func (w *waiter) wait(turns int) (yields, sleeps int) {
	w.reset()
	for n := 1; n <= turns; n++ {
		w.c.now = w.since // time stands still
		if w.longEnough(&w.c) {
			return yields, n
		}
		if w.yields && yields == 0 {
			yields = n
		}
	}
	return yields, 0
}

// TestYields: an idle loop that polls for long yields after each look, and from the start where another thread
// took the CPU meanwhile, and does not where a program took it that computes.
func TestYields(t *testing.T) {
	const most = 3 * lonelyTurns
	w := newWaiter()
	yields, sleeps := w.wait(most)
	require.Equal(t, lonelyTurns+1, yields)
	require.Zero(t, sleeps)

	w.yielded(takenYield + 1)
	for n := range lonelyYields {
		yields, _ = w.wait(most)
		require.Equal(t, crowdedTurns+1, yields, n)
		w.yielded(takenYield)
	}
	yields, _ = w.wait(most)
	require.Equal(t, lonelyTurns+1, yields, "it is alone")

	for _, off := range []int{minOff, 2 * minOff, 4 * minOff} {
		w.yielded(longYield + 1)
		for n := range off {
			yields, sleeps = w.wait(most)
			require.Zero(t, yields)
			require.Equal(t, lonelyTurns+1, sleeps, "wait %d of %d", n, off)
		}
		yields, sleeps = w.wait(most)
		require.NotZero(t, yields)
		require.Zero(t, sleeps)
	}
	for range maxOff {
		w.yielded(longYield)
	}
	w.yielded(longYield + 1)
	require.Equal(t, minOff, w.off, "many yields went well since")
}

// TestSpinIsOwnTime: a loop polls for Spin of its own time, not of that which its yields gave to others.
func TestSpinIsOwnTime(t *testing.T) {
	w := newWaiter()
	w.wait(idleTurns)
	for range 10 {
		w.yielded(DefaultSpin)
	}
	w.c.now = w.since.Add(11*DefaultSpin - 1)
	require.False(t, w.longEnough(&w.c))
	w.c.now = w.since.Add(11 * DefaultSpin)
	require.True(t, w.longEnough(&w.c))
}

// TestPollingThatPays: a loop polls unless that was in vain lately: three gaps longer than Spin in a row stop it,
// a few that are shorter start it again, and it is tried now and then.
func TestPollingThatPays(t *testing.T) {
	w := newWaiter()
	polls := func() bool {
		_, sleeps := w.wait(lonelyTurns)
		return sleeps == 0
	}
	for range 3 {
		require.True(t, polls())
		w.gap(DefaultSpin + 1)
	}
	require.False(t, polls())
	w.gap(DefaultSpin)
	require.True(t, polls(), "a tie")

	for n := range 100 { // every other message comes soon, for which polling is too dear
		w.gap(DefaultSpin + 1)
		require.False(t, polls(), n)
		w.gap(1)
	}
	for range mostVain {
		w.gap(1)
	}
	require.True(t, polls())

	for range 4 {
		w.gap(DefaultSpin + 1)
	}
	tried := 0
	for range 10 * maxAsleep {
		if !polls() {
			w.since = w.c.now.Add(-2 * DefaultSpin)
			w.woke(&w.c)
			continue
		}
		tried++
		w.c.now = w.since.Add(DefaultSpin)
		require.True(t, w.longEnough(&w.c))
		w.woke(&w.c)
	}
	require.InDelta(t, 10, tried, 1)
}

// TestYieldsPay: a shard yields while the host says that threads wait for a CPU, or does not say. Otherwise two that yield to each
// other would stay on one CPU.
func TestYieldsPay(t *testing.T) {
	crowded, known := false, true
	crowdedHost = func() (bool, bool) { return crowded, known }
	defer func() { crowdedHost = sys.Crowded }()
	w := newWaiter()
	w.asked, w.queue = 0, 0
	now := clock.Time(time.Second)
	asks := func(n int) bool {
		for range n {
			now = now.Add(askPeriod)
			w.yieldsPay(now)
		}
		return w.yieldsPay(now)
	}
	require.False(t, asks(mostAsked))
	crowded = true
	require.False(t, asks(mostAsked/2), "a thread of the runtime's may be in the count")
	require.True(t, asks(1))
	require.True(t, asks(100))
	crowded = false
	require.True(t, asks(mostAsked/2-1))
	require.False(t, asks(1))
	known = false
	require.True(t, asks(1))
}

// TestGapGoesOn: a sleep that ended for nothing, by a timer of a device's or what came of it, does not make the gap short, so
// that the next sleep of a waiter that has long had nothing to do is one in Go's poller again.
func TestGapGoesOn(t *testing.T) {
	w := newWaiter()
	slept := func(d time.Duration) {
		w.c.read()
		w.since = w.c.now.Add(-d)
		w.woke(&w.c)
	}
	w.reset()
	slept(time.Hour)
	slept(0)
	require.GreaterOrEqual(t, w.last, longGap, "nothing came")
	w.busy(&w.c)
	slept(0)
	require.Less(t, w.last, longGap)
}
