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

// TestCall: a message with nothing ahead of it is handled before Call returns; behind
// another one, or to an actor that is at work, it waits for its turn.
func TestCall(t *testing.T) {
	s := owned(t, shard.Config{})
	var got, others []any
	a, b := spawn(t, s, "a", producer(&got)), spawn(t, s, "b", producer(&others))
	settle(s)
	s.Call(a, &note{n: 1, do: func(actor.Context) {
		s.Call(b, &note{n: 1, do: func(actor.Context) {
			s.Call(a, &note{n: 3}) // a is at work
			s.Call(b, &note{n: 2}) // so is b
			require.Equal(t, []any{"started", 1}, others)
		}})
		require.Equal(t, []any{"started", 1}, others, "b's second message waits")
		s.Call(b, &note{n: 3}) // behind the one that waits
		got = append(got, 2)
	}})
	require.Equal(t, []any{"started", 1, 2}, got)
	settle(s)
	require.Equal(t, []any{"started", 1, 2, 3}, got)
	require.Equal(t, []any{"started", 1, 2, 3}, others)
}

// TestCallDepth: handlers that call each other without end go on by way of the ring.
func TestCallDepth(t *testing.T) {
	s := owned(t, shard.Config{})
	var refs []shard.Ref
	lists := make([][]any, 20)
	for i := range lists {
		refs = append(refs, spawn(t, s, "", producer(&lists[i])))
	}
	settle(s)
	var next func(i int) func(actor.Context)
	next = func(i int) func(actor.Context) {
		return func(actor.Context) {
			if i < len(refs) {
				s.Call(refs[i], &note{n: i, do: next(i + 1)})
			}
		}
	}
	next(0)(nil)
	require.Len(t, lists[0], 2, "called at once")
	require.Len(t, lists[len(lists)-1], 1, "too deep")
	settle(s)
	require.Len(t, lists[len(lists)-1], 2)
}

// TestQueueAll: from then on no handler is called from another.
func TestQueueAll(t *testing.T) {
	s := owned(t, shard.Config{})
	s.QueueAll()
	var got []any
	a := spawn(t, s, "a", producer(&got))
	settle(s)
	require.False(t, s.Enter(a))
	s.Call(a, &note{n: 1})
	require.Equal(t, []any{"started"}, got)
	settle(s)
	require.Equal(t, []any{"started", 1}, got)
}

// TestCallPanics: the panic of a handler that was called is the failure of its actor,
// and the handler that had called it goes on.
func TestCallPanics(t *testing.T) {
	s := owned(t, shard.Config{})
	var got, inner, middle []any
	a, b, c := spawn(t, s, "a", producer(&got)), spawn(t, s, "b", producer(&middle)), spawn(t, s, "c", producer(&inner))
	settle(s)
	s.Tell(a, &note{n: 1, do: func(actor.Context) {
		s.Call(b, &note{n: 1, do: func(actor.Context) {
			if s.Enter(c) { // without a deferred Leave: that of b's caller rescues
				panic("boom")
			}
		}})
		require.False(t, s.Enter(c), "it awaits its supervisor")
		require.True(t, s.Enter(b))
		s.Leave(b)
		got = append(got, "went on")
	}})
	settle(s)
	require.Equal(t, []any{"started", 1, "went on"}, got)
	require.Equal(t, []any{"started", 1}, middle)
	require.Equal(t, []any{"started", "restarting", "started"}, inner)
	require.True(t, s.Enter(c), "it lives again")
	s.Leave(c)
}

// TestCallerGoesOn: an actor that the turn has called, and that goes on after a panic of one that it called, is
// still at work: nobody enters it, and a panic of its own is its failure.
func TestCallerGoesOn(t *testing.T) {
	s := owned(t, shard.Config{})
	var got, inner []any
	a, b := spawn(t, s, "a", producer(&got)), spawn(t, s, "b", producer(&inner))
	settle(s)
	s.Tell(a, &note{n: 1, do: func(actor.Context) {
		s.Call(b, &note{n: 2, do: func(actor.Context) { panic("boom") }})
		require.False(t, s.Enter(a))
		panic("bang")
	}})
	settle(s)
	require.EqualValues(t, 2, s.Stats().Failures)
	require.Equal(t, []any{"started", 1, "restarting", "started"}, got)
	require.Equal(t, []any{"started", 2, "restarting", "started"}, inner)
}

// TestEnteredAgain: a panic that ends the whole turn leaves nobody behind on the stack, so that
// those who were at work can be entered again.
func TestEnteredAgain(t *testing.T) {
	s := owned(t, shard.Config{})
	var got, middle, inner []any
	a, b, c := spawn(t, s, "a", producer(&got)), spawn(t, s, "b", producer(&middle)), spawn(t, s, "c", producer(&inner))
	settle(s)
	s.Tell(a, &note{n: 1, do: func(actor.Context) {
		if s.Enter(b) && s.Enter(c) { // nobody rescues below the turn
			panic("boom")
		}
	}})
	settle(s)
	require.Equal(t, []any{"started", 1}, got)
	require.Equal(t, []any{"started"}, middle)
	require.Equal(t, []any{"started", "restarting", "started"}, inner)
	for _, ref := range []shard.Ref{a, b, c} {
		require.True(t, s.Unburdened(ref))
		require.True(t, s.Enter(ref))
		require.False(t, s.Unburdened(ref))
	}
	for range 3 {
		s.Exit()
	}
	require.True(t, s.Enter(a))
	s.Exit()
}

// flusher is a poller that has work in each turn and says when to flush it.
type flusher struct {
	due     bool
	flushed int
}

func (*flusher) Poll(*shard.Shard) int { return 1 }
func (f *flusher) Flush(*shard.Shard)  { f.due, f.flushed = false, f.flushed+1 }
func (f *flusher) FlushDue() *bool     { return &f.due }
func (*flusher) Arm() bool             { return true }
func (*flusher) FDs() []int            { return nil }

// TestFlusher: a poller that says when it is to be flushed is flushed then, and not otherwise.
func TestFlusher(t *testing.T) {
	s := owned(t, shard.Config{})
	f := new(flusher)
	s.AddPoller(shard.Ref{}, f)
	s.Turn()
	require.Zero(t, f.flushed)
	f.due = true
	s.Turn()
	s.Turn()
	require.Equal(t, 1, f.flushed)
}

// ball goes back and forth between two players.
type ball struct {
	shard.Message
	left int
}

type player struct {
	s     *shard.Shard
	other shard.Ref
	pid   bool
}

func (p *player) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *ball:
		if m.left--; m.left <= 0 {
			return
		}
		if p.pid {
			ctx.Send(p.other.PID(), m)
		} else {
			p.s.Tell(p.other, m)
		}
	}
}

func hop(tb testing.TB, pid bool) (run func(hops int)) {
	s, err := shard.New(shard.Config{External: true})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	require.True(tb, s.Adopt())
	players := make([]*player, 2)
	refs := make([]shard.Ref, 2)
	for i := range players {
		players[i] = &player{s: s, pid: pid}
		refs[i], err = s.Spawn("", func() actor.Actor { return players[i] })
		require.NoError(tb, err)
	}
	players[0].other, players[1].other = refs[1], refs[0]
	b := &ball{}
	return func(hops int) {
		b.left = hops
		s.Tell(refs[0], b)
		for b.left > 0 {
			s.Turn()
		}
	}
}

func BenchmarkHop(b *testing.B) {
	for name, pid := range map[string]bool{"lane=ref": false, "lane=pid": true} {
		b.Run(name, func(b *testing.B) {
			run := hop(b, pid)
			run(1000)
			b.ReportAllocs()
			b.ResetTimer()
			run(b.N)
		})
	}
}

func BenchmarkEmptyTurn(b *testing.B) {
	s, err := shard.New(shard.Config{External: true})
	require.NoError(b, err)
	require.True(b, s.Adopt())
	defer s.Close()
	for b.Loop() {
		s.Turn()
	}
}

// asked answers by protoactor's Request.
type asked struct{ shard.Message }

func TestRefContext(t *testing.T) {
	s := owned(t, shard.Config{Name: "ctx"})
	var got, other []any
	a := spawn(t, s, "a", producer(&got))
	b := spawn(t, s, "b", producer(&other))
	settle(s)
	got, other = nil, nil

	m := &note{n: 7}
	m.do = func(ctx actor.Context) {
		require.Same(t, m, ctx.Message())
		require.Nil(t, ctx.Sender())
		require.Nil(t, ctx.MessageHeader())
		require.Equal(t, a.PID(), ctx.Self())
		require.Equal(t, "ctx/a", a.String())
		m.do = nil
		ctx.Forward(b.PID())
	}
	s.Tell(a, m)
	settle(s)
	require.Equal(t, []any{7}, got)
	require.Equal(t, []any{7}, other)
}

func TestStashComesBackAtRestart(t *testing.T) {
	s := owned(t, shard.Config{})
	var got []any
	a := spawn(t, s, "a", producer(&got))
	settle(s)
	got = nil
	stash := func(ctx actor.Context) { ctx.Stash() }
	one, two := &note{n: 1, do: stash}, &note{n: 2, do: stash}
	s.Tell(a, one)
	s.Tell(a, two)
	s.Tell(a, &note{n: 3, do: func(actor.Context) {
		one.do, two.do = nil, nil
		panic("x")
	}})
	s.Tell(a, &note{n: 4})
	settle(s)
	require.Equal(t, []any{1, 2, 3, "restarting", "started", 2, 1, 4}, got)
}

// TestMiddlewareSeesRefLane: middleware around Receive sees Ref lane messages, too.
func TestMiddlewareSeesRefLane(t *testing.T) {
	s := owned(t, shard.Config{})
	var got, seen []any
	a := spawn(t, s, "a", producer(&got), actor.WithReceiverMiddleware(func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			seen = append(seen, env.Message)
			next(c, env)
		}
	}))
	settle(s)
	m := &note{n: 1}
	s.Tell(a, m)
	settle(s)
	require.Contains(t, seen, any(m))
	require.Equal(t, []any{"started", 1}, got)
}

func TestRequestAndPoison(t *testing.T) {
	s := owned(t, shard.Config{})
	var got, answers []any
	server := spawn(t, s, "server", func() actor.Actor {
		return &recorder{got: &got, onMsg: func(ctx actor.Context) {
			if _, ok := ctx.Message().(*asked); ok {
				ctx.Respond(&note{n: 42})
			}
		}}
	})
	client := spawn(t, s, "client", producer(&answers))
	settle(s)
	s.Tell(client, &note{do: func(ctx actor.Context) {
		ctx.Request(server.PID(), &asked{})
		ctx.Poison(server.PID())
		s.Tell(server, &note{n: 1}) // after the poison: canceled
	}})
	settle(s)
	require.Equal(t, []any{"started", 0, 42}, answers)
	require.NotContains(t, got, any(1))
	require.Equal(t, "stopped", got[len(got)-1])
	require.EqualValues(t, 1, s.Stats().Canceled)
}

func TestNames(t *testing.T) {
	s := owned(t, shard.Config{Name: "names"})
	two := owned(t, shard.Config{Name: "names"})
	require.Equal(t, "names", s.Name())
	require.Equal(t, "names#2", two.Name())
	var got []any
	require.Equal(t, "names/$1", spawn(t, s, "", producer(&got)).String())
	require.Equal(t, "names/a", spawn(t, s, "a", producer(&got)).String())
	_, err := s.Spawn("a", producer(&got))
	require.ErrorIs(t, err, actor.ErrNameExists)
	require.Equal(t, "nobody", shard.Ref{}.String())
	require.Nil(t, shard.Ref{}.PID())
	require.True(t, shard.Ref{}.IsZero())
}
