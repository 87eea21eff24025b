package shard_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

const tick = 1 << 14 * time.Nanosecond

// naive is the model of the wheel: a list, sorted by when it is due and then
// by when it was started.
type naive struct {
	n        int
	deadline clock.Time
}

func TestTimersAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var now clock.Manual
		now.Set(clock.Time(rapid.Int64Range(0, math.MaxInt64/4).Draw(rt, "zero")))
		s, err := shard.New(shard.Config{External: true, Clock: &now})
		require.NoError(rt, err)
		require.True(rt, s.Adopt())
		defer s.Close()
		var got []any
		ref := spawn(t, s, "", producer(&got))
		settle(s)
		got = nil
		timers := make([]shard.Timer, 40)
		var model []naive
		forget := func(n int) bool {
			i := slices.IndexFunc(model, func(x naive) bool { return x.n == n })
			if i >= 0 {
				model = slices.Delete(model, i, i+1)
			}
			return i >= 0
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(rt *rapid.T) {
				n := rapid.IntRange(0, len(timers)-1).Draw(rt, "n")
				// Log-uniform, up to 100 days.
				d := time.Duration(1) << rapid.IntRange(0, 53).Draw(rt, "log")
				d += time.Duration(rapid.Int64Range(-1, int64(d)).Draw(rt, "more"))
				forget(n)
				s.StartTimer(&timers[n], d, ref, &note{n: n})
				model = append(model, naive{n, now.Now().Add(max(d, 0))})
			},
			"stop": func(rt *rapid.T) {
				n := rapid.IntRange(0, len(timers)-1).Draw(rt, "n")
				require.Equal(rt, forget(n), s.StopTimer(&timers[n]))
				require.False(rt, timers[n].Active())
			},
			"advance": func(rt *rapid.T) {
				now.Advance(time.Duration(1) << rapid.IntRange(0, 50).Draw(rt, "log"))
				s.Turn()
				settle(s)
				for _, g := range got {
					i := slices.IndexFunc(model, func(x naive) bool { return x.n == g.(int) })
					require.GreaterOrEqual(rt, i, 0)
					require.LessOrEqual(rt, model[i].deadline, now.Now(), "early")
					for _, other := range model {
						require.GreaterOrEqual(rt, other.deadline.Add(2*tick), model[i].deadline, "out of order")
					}
					model = slices.Delete(model, i, i+1)
				}
				got = nil
				for _, x := range model {
					require.Greater(rt, x.deadline.Add(2*tick), now.Now(), "late")
				}
			},
			"next": func(rt *rapid.T) {
				at, ok := s.NextTimer()
				require.Equal(rt, len(model) > 0, ok)
				if !ok {
					return
				}
				first := slices.MinFunc(model, func(a, b naive) int { return int(min(max(a.deadline-b.deadline, -1), 1)) })
				require.GreaterOrEqual(rt, at, first.deadline)
				require.Less(rt, at, first.deadline.Add(2*tick))
			},
		})
	})
}

// Timers of one tick fire in the order in which they were started, also when
// they came by different levels of the wheel.
func TestTimersOfOneTick(t *testing.T) {
	var now clock.Manual
	s := owned(t, shard.Config{Clock: &now})
	var got []any
	ref := spawn(t, s, "", producer(&got))
	settle(s)
	got = nil
	var timers [6]shard.Timer
	due := clock.Time(5000 * tick)
	for i := range timers {
		s.StartTimer(&timers[i], due.Sub(now.Now()), ref, &note{n: i})
		now.Advance(800 * tick)
		s.Turn()
	}
	require.Equal(t, []any(nil), got)
	at, ok := s.NextTimer()
	require.True(t, ok)
	require.Equal(t, due, at)
	now.Set(at)
	settle(s)
	require.Equal(t, []any{0, 1, 2, 3, 4, 5}, got)
}

func TestTimerRestartsItself(t *testing.T) {
	var now clock.Manual
	s := owned(t, shard.Config{Clock: &now})
	var tm shard.Timer
	fired := 0
	var ref shard.Ref
	ref = spawn(t, s, "", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if m, ok := ctx.Message().(*note); ok {
				fired++
				s.StartTimer(&tm, 0, ref, m)
			}
		})
	})
	settle(s)
	s.StartTimer(&tm, 0, ref, &note{})
	for range 100 {
		now.Advance(tick)
		settle(s)
	}
	require.InDelta(t, 100, fired, 1)
	s.StartTimer(&tm, math.MaxInt64, ref, &note{})
	require.True(t, tm.Active())
	require.True(t, s.StopTimer(&tm))
	require.False(t, s.StopTimer(&tm))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.StartTimer(&tm, time.Second, ref, nil)
		s.StopTimer(&tm)
	}))
}

// TestTimerPunctual: real timers are never early and, while the shard sleeps,
// wake it in time. A loaded machine wakes no thread in time: Go's own timers, right
// afterwards, show how late that is. The log has the medians.
func TestTimerPunctual(t *testing.T) {
	const rounds, tries = 20, 20
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			for try := range tries {
				late := lateness(t, mode, rounds)
				var plain []time.Duration
				for range rounds {
					due := clock.System.Now().Add(2 * time.Millisecond)
					<-clock.NewTimer(2 * time.Millisecond).C
					plain = append(plain, clock.System.Now().Sub(due))
				}
				slices.Sort(plain)
				t.Logf("late: min %v median %v max %v; Go's: median %v", late[0], late[rounds/2], late[rounds-1], plain[rounds/2])
				require.GreaterOrEqual(t, late[0], time.Duration(0))
				most := 2*time.Millisecond + 2*plain[rounds/2]
				if late[rounds/2] < most || testenv.Short() { // a time is judged on a quiet machine alone
					return
				}
				require.Less(t, try, tries-1, "late by %v, not %v", late[rounds/2], most)
			}
		})
	}
}

// lateness returns how late the timers of a sleeping shard fire, sorted.
func lateness(t *testing.T, mode shard.Mode, rounds int) []time.Duration {
	s := newShard(t, shard.Config{Mode: mode})
	var (
		tm   shard.Timer
		ref  shard.Ref
		due  clock.Time
		late []time.Duration
		done shard.Signal
	)
	start := func() {
		due = clock.System.Now().Add(2 * time.Millisecond)
		s.StartTimer(&tm, 2*time.Millisecond, ref, &note{})
	}
	ref = spawn(t, s, "", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			m, ok := ctx.Message().(*note)
			if !ok {
				return
			}
			if m.n == 0 {
				late = append(late, clock.System.Now().Sub(due))
			}
			if len(late) == rounds {
				done.Set()
				return
			}
			start()
		})
	})
	s.Post(ref, &note{n: 1})
	require.NoError(t, s.Wait(soon(t), &done))
	slices.Sort(late)
	return late
}
