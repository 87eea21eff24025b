package shard_test

import (
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/runtime/shard"
)

// TestHandOver: eight goroutines wait for signals that are set in each other's
// turns: a ping goes to a random actor, which passes it on a few times, so that
// it is often another's turn. With a Grace of an hour the helper repairs nothing:
// the test hangs if a hand-over is lost.
func TestHandOver(t *testing.T) {
	rounds := 12500
	if raceEnabled || testing.Short() {
		rounds = 2500
	}
	s := newShard(t, shard.Config{Mode: shard.Manual, Grace: time.Hour})
	handOver(t, s, 8, rounds)
}

// TestHandOverElsewhere does the same in the modes with a loop of their own, and with
// a helper that takes the shard often.
func TestHandOverElsewhere(t *testing.T) {
	for _, cfg := range []shard.Config{
		{Mode: shard.Manual, Grace: time.Microsecond, Spin: time.Microsecond},
		{Mode: shard.Manual, Grace: time.Hour, Spin: time.Microsecond},
		{Mode: shard.Cooperative},
		{Mode: shard.Pinned, Spin: time.Microsecond},
	} {
		t.Run(cfg.Mode.String(), func(t *testing.T) {
			handOver(t, newShard(t, cfg), 8, 500)
		})
	}
}

type relay struct {
	shard.Message
	hops int
	sig  shard.Signal
}

func handOver(t *testing.T, s *shard.Shard, waiters, rounds int) {
	refs := make([]shard.Ref, 4)
	for i := range refs {
		refs[i] = spawn(t, s, "", func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				m, ok := ctx.Message().(*relay)
				if !ok {
					return
				}
				if m.hops--; m.hops > 0 {
					s.Tell(refs[s.Rand().IntN(len(refs))], m)
					return
				}
				m.sig.SetByOwner()
			})
		})
	}
	ctx := soon(t)
	var wg sync.WaitGroup
	for w := range waiters {
		wg.Go(func() {
			m := &relay{}
			for i := range rounds {
				m.sig.Reset()
				m.hops = 1 + (i*7+w)%40
				s.Post(refs[(i+w)%len(refs)], m)
				if err := s.Wait(ctx, &m.sig); err != nil {
					t.Errorf("waiter %d, round %d: %v", w, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestAdoptByHand: an application that adopts a manual shard itself, and leaves
// it with work undone.
func TestAdoptByHand(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, err := shard.New(shard.Config{Mode: shard.Manual})
	require.NoError(t, err)
	ref := spawn(t, s, "", setter())
	for range 100 {
		for !s.Adopt() {
		}
		require.False(t, s.Adopt())
		var p ping
		s.Tell(ref, &p)
		require.NoError(t, s.Wait(soon(t), &p.sig))
		done := make(chan struct{})
		s.Tell(ref, &note{do: func(actor.Context) { close(done) }})
		s.Release()
		<-done
	}
	require.NoError(t, s.Close())
}
