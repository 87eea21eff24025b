package shard_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// BenchmarkPost streams messages from another goroutine, at most a window ahead.
func BenchmarkPost(b *testing.B) {
	for _, mode := range []shard.Mode{shard.Manual, shard.Pinned} {
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

// BenchmarkCall measures a blocking round trip: post, the actor sets a signal, wait.
func BenchmarkCall(b *testing.B) {
	for _, mode := range modes {
		b.Run("mode="+mode.String(), func(b *testing.B) {
			s := newShard(b, shard.Config{Mode: mode})
			ref := spawn(b, s, "", setter())
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

// BenchmarkWake measures the time from a post to a sleeping shard until its waiter,
// which is parked as well, runs. The time it takes to fall asleep is not counted.
func BenchmarkWake(b *testing.B) {
	for _, mode := range modes {
		b.Run("mode="+mode.String(), func(b *testing.B) {
			s := newShard(b, shard.Config{Mode: mode})
			ref := spawn(b, s, "", setter())
			pings, woken := make(chan *ping), make(chan clock.Time)
			go func() {
				for p := range pings {
					if err := s.Wait(context.Background(), &p.sig); err != nil {
						b.Error(err)
					}
					woken <- clock.System.Now()
				}
			}()
			var took []time.Duration
			for b.Loop() {
				before := s.Stats().Parks
				p := &ping{}
				pings <- p
				// The manual shard is driven, then sleeps for its waiter; the others
				// went to sleep before. All have had 200 us for it.
				for began := clock.System.Now(); clock.System.Now().Sub(began) < 200*time.Microsecond ||
					mode == shard.Manual && s.Stats().Parks == before; {
					runtime.Gosched()
				}
				began := clock.System.Now()
				s.Post(ref, p)
				took = append(took, (<-woken).Sub(began))
			}
			close(pings)
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "wake-p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "wake-p99-ns")
			b.ReportMetric(0, "ns/op")
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
		ref := spawn(t, s, "", setter())
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
		require.Less(t, fewestAllocs(1000, call), 1.0)
	}
}
