package shard_test

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/shard"
)

// BenchmarkPost streams messages from another goroutine, at most a window ahead.
func BenchmarkPost(b *testing.B) {
	for _, mode := range []shard.Mode{shard.Cooperative, shard.Pinned} {
		b.Run("mode="+mode.String(), func(b *testing.B) {
			s := newShard(b, shard.Config{Mode: mode})
			const window = 512
			ref := spawn(b, s, "", func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if m, ok := ctx.Message().(*ping); ok {
						m.sig.Set()
					}
				})
			})
			ctx := context.Background()
			var plain note
			var last [2]ping
			last[0].sig.Set() // the first to be waited for
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if n++; n%window != 0 {
					s.Post(ref, &plain)
					continue
				}
				mine, previous := &last[n/window%2], &last[(n/window+1)%2]
				if err := s.Wait(ctx, &previous.sig); err != nil {
					b.Fatal(err)
				}
				mine.sig.Reset()
				s.Post(ref, mine)
			}
		})
	}
}

// BenchmarkCall is a blocking round trip: post, the actor sets a signal, wait.
func BenchmarkCall(b *testing.B) {
	for _, mode := range modes {
		b.Run("mode="+mode.String(), func(b *testing.B) {
			s := newShard(b, shard.Config{Mode: mode})
			ref := spawn(b, s, "", setter(s))
			ctx := context.Background()
			var p ping
			b.ReportAllocs()
			for b.Loop() {
				p.sig.Reset()
				s.Post(ref, &p)
				if err := s.Wait(ctx, &p.sig); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWake is BenchmarkCall on a shard that sleeps, from a waiter that has
// parked: another goroutine posts.
func BenchmarkWake(b *testing.B) {
	for _, mode := range modes {
		b.Run("mode="+mode.String(), func(b *testing.B) {
			s := newShard(b, shard.Config{Mode: mode})
			ref := spawn(b, s, "", setter(s))
			ctx := context.Background()
			var p ping
			for b.Loop() {
				p.sig.Reset()
				b.StopTimer()
				parked(b, s)
				b.StartTimer()
				s.Post(ref, &p)
				if err := s.Wait(ctx, &p.sig); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestHotPathsDoNotAllocate covers what the benchmarks report.
func TestHotPathsDoNotAllocate(t *testing.T) {
	for _, pid := range []bool{false, true} {
		run := hop(t, pid)
		run(1000)
		require.Zero(t, testing.AllocsPerRun(100, func() { run(100) }))
	}
	for _, mode := range modes {
		s := newShard(t, shard.Config{Mode: mode})
		ref := spawn(t, s, "", setter(s))
		var p ping
		call := func() {
			p.sig.Reset()
			s.Post(ref, &p)
			if err := s.Wait(context.Background(), &p.sig); err != nil {
				t.Error(err)
			}
		}
		for range 100 {
			call()
		}
		require.Less(t, testing.AllocsPerRun(1000, call), 1.0)
	}
}
