package shard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
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

// simulate runs a few actors that tell, time, fail and spawn as the shard's
// randomness has it, and returns all that happened.
func simulate(t *testing.T, seed uint64) string {
	var log strings.Builder
	var now clock.Manual
	s, err := shard.New(shard.Config{Name: "sim", External: true, Clock: &now, Seed: seed})
	require.NoError(t, err)
	require.True(t, s.Adopt())
	const n = 5
	refs := make([]shard.Ref, n)
	timers := make([]shard.Timer, n)
	steps := 0
	for i := range refs {
		refs[i] = spawn(t, s, "", func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				fmt.Fprintf(&log, "%d %s %T", s.Now(), ctx.Self().GetId(), ctx.Message())
				m, ok := ctx.Message().(*note)
				if !ok {
					fmt.Fprintln(&log)
					return
				}
				fmt.Fprintln(&log, "", m.n)
				if steps++; steps > 2000 {
					return
				}
				to := refs[s.Rand().IntN(n)]
				switch s.Rand().IntN(8) {
				case 0:
					k := s.Rand().IntN(n)
					s.StartTimer(&timers[k], time.Duration(s.Rand().Int64N(int64(time.Second))), to, &note{n: m.n + 1})
				case 1:
					ctx.Send(to.PID(), &note{n: m.n + 2})
					if s.Rand().IntN(4) == 0 {
						panic("drawn")
					}
				case 2:
					child := s.SpawnChild(ctx, "", func() actor.Actor {
						return actor.ReceiveFunc(func(ctx actor.Context) {
							fmt.Fprintf(&log, "%d %s %T\n", s.Now(), ctx.Self().GetId(), ctx.Message())
						})
					})
					s.Tell(child, &note{n: m.n})
					s.Stop(child)
					s.Tell(to, &note{n: m.n})
				default:
					s.Tell(to, &note{n: m.n + 1})
				}
			})
		})
		s.Tell(refs[i], &note{n: i * 1000})
	}
	for range 500 {
		settle(s)
		at, ok := s.NextTimer()
		if !ok {
			s.Tell(refs[0], &note{})
			continue
		}
		now.Set(at)
	}
	require.NoError(t, s.Close())
	return log.String()
}

func TestDeterminism(t *testing.T) {
	one := simulate(t, 1)
	require.Greater(t, strings.Count(one, "\n"), 1000)
	require.Contains(t, one, "Restarting")
	for range 3 {
		require.Equal(t, one, simulate(t, 1))
	}
	require.NotEqual(t, one, simulate(t, 2))
}
