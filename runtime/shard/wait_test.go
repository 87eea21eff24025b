package shard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/shard"
)

// ping asks an actor to set a signal.
type ping struct {
	shard.Message
	sig shard.Signal
}

func setter() actor.Producer {
	return func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *ping:
				m.sig.Set()
			case *note:
				m.do(ctx)
			}
		})
	}
}

func eachMode(t *testing.T, f func(t *testing.T, s *shard.Shard, ref shard.Ref)) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			s := newShard(t, shard.Config{Mode: mode})
			require.Equal(t, mode, s.Mode())
			f(t, s, spawn(t, s, "setter", setter()))
		})
	}
}

func TestPostWakesParked(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		ctx := soon(t)
		for range 20 {
			parked(t, s)
			var p ping
			s.Post(ref, &p)
			require.NoError(t, s.Wait(ctx, &p.sig))
		}
		require.NotZero(t, s.Stats().Wakes)
	})
}

// TestProgressWithoutWaiter: work is done while no goroutine waits.
func TestProgressWithoutWaiter(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		ctx := soon(t)
		for range 200 {
			done := make(chan struct{})
			s.Post(ref, &note{do: func(actor.Context) { close(done) }})
			select {
			case <-done:
			case <-ctx.Done():
				t.Fatal("no progress")
			}
			// A wait, after which the manual shard is left behind awake.
			var p ping
			s.Post(ref, &p)
			require.NoError(t, s.Wait(ctx, &p.sig))
		}
	})
}

func TestWaitEndsWithContext(t *testing.T) {
	why := errors.New("why")
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		var sig shard.Signal
		ended, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		require.ErrorIs(t, s.Wait(ended, &sig), why)

		ctx, cancel := context.WithCancelCause(context.Background())
		got := make(chan error)
		go func() { got <- s.Wait(ctx, &sig) }()
		parked(t, s)
		cancel(why)
		require.ErrorIs(t, <-got, why)

		// The signal can be used again, and a set signal wins over a context that ended.
		var p ping
		s.Post(ref, &p)
		require.NoError(t, s.Wait(soon(t), &p.sig))
		sig.Set()
		require.NoError(t, s.Wait(ctx, &sig))
		sig.Reset()
		require.False(t, sig.IsSet())
	})
}

// Any goroutine may set a signal whose waiter is parked.
func TestSetFromElsewhere(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, _ shard.Ref) {
		for range 20 {
			var sig shard.Signal
			got := make(chan error)
			go func() { got <- s.Wait(soon(t), &sig) }()
			parked(t, s)
			sig.Set()
			sig.Set()
			require.NoError(t, <-got)
		}
	})
}

func TestCloseWhileWaiting(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			s, err := shard.New(shard.Config{Mode: mode})
			require.NoError(t, err)
			ref := spawn(t, s, "setter", setter())
			var mu sync.Mutex
			canceled := 0
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					var sig shard.Signal
					if err := s.Wait(soon(t), &sig); !errors.Is(err, shard.ErrClosed) {
						t.Error(err)
					}
				})
			}
			parked(t, s)
			for range 3 {
				wg.Go(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			// A message that comes later is canceled at once.
			s.Post(ref, &lost{canceled: func() {
				mu.Lock()
				defer mu.Unlock()
				canceled++
			}})
			require.Equal(t, 1, canceled)
			_, err = s.Spawn("late", setter())
			require.ErrorIs(t, err, shard.ErrClosed)
			require.ErrorIs(t, s.Wait(context.Background(), new(shard.Signal)), shard.ErrClosed)
		})
	}
}

// Every message has one outcome, however Close and producers interleave.
func TestCloseRacesPost(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			for range 20 {
				s, err := shard.New(shard.Config{Mode: mode})
				require.NoError(t, err)
				var got []any
				ref := spawn(t, s, "x", producer(&got))
				const senders, each = 2, 200
				var mu sync.Mutex
				canceled := 0
				var wg sync.WaitGroup
				for range senders {
					wg.Go(func() {
						for range each {
							s.Post(ref, &lost{canceled: func() {
								mu.Lock()
								defer mu.Unlock()
								canceled++
							}})
						}
					})
				}
				require.NoError(t, s.Close())
				wg.Wait()
				received := 0
				for _, g := range got {
					if g == 0 {
						received++
					}
				}
				require.Equal(t, senders*each, received+canceled)
			}
		})
	}
}

// Roots stop in the order of spawning, after the messages they have.
func TestCloseOrder(t *testing.T) {
	s, err := shard.New(shard.Config{External: true})
	require.NoError(t, err)
	require.True(t, s.Adopt())
	var got []any
	a := spawn(t, s, "a", producer(&got))
	b := spawn(t, s, "b", producer(&got))
	settle(s)
	got = nil
	s.Tell(b, &note{n: 2})
	s.Tell(a, &note{n: 1})
	require.NoError(t, s.Close())
	require.Equal(t, []any{2, 1, "stopping", "stopped", "stopping", "stopped"}, got)
	require.NoError(t, s.Close())
	require.Zero(t, s.Turn())
}

func TestWaitInsideTurn(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		var p ping
		var err error
		s.Post(ref, &note{do: func(actor.Context) {
			require.True(t, s.OnShard())
			err = s.Wait(context.Background(), new(shard.Signal))
			p.sig.Set()
		}})
		require.NoError(t, s.Wait(soon(t), &p.sig))
		require.ErrorIs(t, err, shard.ErrInTurn)
		require.False(t, s.OnShard())
	})
}

// TestIdle: a parked shard costs less than 1% of a CPU.
func TestIdle(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		var p ping
		s.Post(ref, &p)
		require.NoError(t, s.Wait(soon(t), &p.sig))
		parked(t, s)
		var used time.Duration
		for range 5 { // in one second of these Go's runtime may do something else
			before := cpuTime(t)
			second, cancel := context.WithTimeout(context.Background(), time.Second)
			<-second.Done()
			cancel()
			used = cpuTime(t) - before
			t.Logf("%v of CPU in 1 s", used)
			if used < 10*time.Millisecond {
				break
			}
		}
		require.Less(t, used, 10*time.Millisecond)
	})
}
