package shard_test

import (
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/runtime/shard"
)

// TestOrderAcrossLanes: between two actors messages arrive in the order in which
// they were sent, whichever lane each took.
func TestOrderAcrossLanes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, err := shard.New(shard.Config{External: true})
		require.NoError(rt, err)
		require.True(rt, s.Adopt())
		defer s.Close()
		got := make([][]any, 3)
		refs := make([]shard.Ref, 3)
		for i := range refs {
			refs[i] = spawn(t, s, "", producer(&got[i]))
		}
		settle(s)
		want := [][]any{{"started"}, {"started"}, {"started"}}
		n := 0
		rt.Repeat(map[string]func(*rapid.T){
			"burst": func(rt *rapid.T) {
				from := rapid.IntRange(0, 2).Draw(rt, "from")
				lanes := rapid.SliceOfN(rapid.IntRange(0, 8), 1, 400).Draw(rt, "lanes")
				burst := &note{n: -1}
				first := n
				n += len(lanes)
				burst.do = func(ctx actor.Context) {
					for i, l := range lanes {
						to, msg := refs[l%3], &note{n: first + i}
						switch l / 3 {
						case 0:
							s.Tell(to, msg)
						case 1:
							ctx.Send(to.PID(), msg)
						case 2:
							s.Post(to, msg)
						}
					}
				}
				want[from] = append(want[from], -1)
				for i, l := range lanes {
					want[l%3] = append(want[l%3], first+i)
				}
				s.Tell(refs[from], burst)
				settle(s)
			},
			"": func(rt *rapid.T) {
				for i := range got {
					require.Equal(rt, want[i], got[i])
				}
			},
		})
	})
}

// TestOrderFromElsewhere: goroutines mix lanes, and send enough for the inbox to spill.
func TestOrderFromElsewhere(t *testing.T) {
	const senders, each = 3, 5000
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			s := newShard(t, shard.Config{Mode: mode})
			var next [senders]int
			var done shard.Signal
			left := senders * each
			ref := spawn(t, s, "", func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					m, ok := ctx.Message().(*note)
					if !ok {
						return
					}
					if from := m.n % senders; m.n/senders != next[from] {
						t.Errorf("sender %d: %d where %d was due", from, m.n/senders, next[from])
					} else {
						next[from]++
					}
					if left--; left == 0 {
						done.Set()
					}
				})
			})
			root := rootContext(t, s)
			var wg sync.WaitGroup
			for from := range senders {
				wg.Go(func() {
					for i := range each {
						m := &note{n: i*senders + from}
						if i%3 == 0 {
							root.Send(ref.PID(), m)
						} else {
							s.Post(ref, m)
						}
					}
				})
			}
			wg.Wait()
			require.NoError(t, s.Wait(soon(t), &done))
		})
	}
}

// rootContext returns the hidden actor system's, from inside of an actor.
func rootContext(t *testing.T, s *shard.Shard) *actor.RootContext {
	var root *actor.RootContext
	spawn(t, s, "", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) { root = ctx.ActorSystem().Root })
	})
	var sig shard.Signal
	ref := spawn(t, s, "", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if m, ok := ctx.Message().(*note); ok {
				m.do(ctx)
			}
		})
	})
	s.Post(ref, &note{do: func(actor.Context) { sig.Set() }})
	require.NoError(t, s.Wait(soon(t), &sig))
	return root
}

// TestTurnIsBounded: two actors that never stop telling each other do not hold a
// turn for ever, and a turn does run what was told in it.
func TestTurnIsBounded(t *testing.T) {
	s := owned(t, shard.Config{})
	count := 0
	var ref shard.Ref
	ref = spawn(t, s, "", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if m, ok := ctx.Message().(*note); ok {
				count++
				s.Tell(ref, m)
			}
		})
	})
	settle(s)
	s.Tell(ref, &note{})
	n := s.Turn()
	require.Greater(t, n, 100)
	require.Less(t, n, 1000)
	require.Greater(t, count, 100)
}
