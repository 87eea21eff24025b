package shard_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// numbered is an actor that knows which it is and how often it was made.
type numbered struct{ n, made int }

func (a *numbered) Receive(ctx actor.Context) {
	if m, ok := ctx.Message().(*note); ok {
		m.n = a.n*100 + a.made
		if m.do != nil {
			m.do(ctx)
		}
	}
}

// TestSharedPropsKeepApart: actors without options share their Props, yet each is
// made, and made anew, by its own producer; also when producers spawn.
func TestSharedPropsKeepApart(t *testing.T) {
	s := owned(t, shard.Config{})
	refs := make([]shard.Ref, 6)
	made := make([]int, len(refs))
	var start func(n int) shard.Ref
	start = func(n int) shard.Ref {
		ref, err := s.Spawn(fmt.Sprint(n), func() actor.Actor {
			if made[n]++; n%2 == 0 && made[n] == 1 {
				refs[n+1] = start(n + 1)
			}
			return &numbered{n, made[n]}
		})
		require.NoError(t, err)
		return ref
	}
	for n := 0; n < len(refs); n += 2 {
		refs[n] = start(n)
	}
	ask := func(n int, do func(actor.Context)) int {
		m := &note{do: do}
		s.Tell(refs[n], m)
		settle(s)
		return m.n
	}
	for n := range refs {
		require.Equal(t, n*100+1, ask(n, nil))
	}
	for n := range refs {
		ask(n, boom)
		require.Equal(t, n*100+2, ask(n, nil))
	}
}

// A producer that panics fails the spawn and nothing else.
func TestProducerPanics(t *testing.T) {
	s := newShard(t, shard.Config{})
	var got []any
	_, err := s.Spawn("bad", func() actor.Actor { panic(errors.New("no actor today")) })
	require.ErrorContains(t, err, "no actor today")
	ref := spawn(t, s, "bad", producer(&got))
	var p ping
	s.Post(ref, &note{n: 1, do: func(actor.Context) { p.sig.Set() }})
	require.NoError(t, s.Wait(soon(t), &p.sig))
	require.Equal(t, []any{"started", 1}, got)
}

func TestChildNameClashPanics(t *testing.T) {
	s := owned(t, shard.Config{})
	var got []any
	parent := spawn(t, s, "p", producer(&got))
	settle(s)
	var reason any
	s.Tell(parent, &note{do: func(ctx actor.Context) {
		defer func() { reason = recover() }()
		s.SpawnChild(ctx, "twin", producer(&got))
		s.SpawnChild(ctx, "twin", producer(&got))
	}})
	settle(s)
	require.ErrorIs(t, reason.(error), actor.ErrNameExists)
}

func boom(actor.Context) { panic("boom") }

func decide(d actor.Directive) actor.DeciderFunc {
	return func(any) actor.Directive { return d }
}

// family is a root actor with one child, supervised by the strategy.
type family struct {
	s                   *shard.Shard
	parent, child       shard.Ref
	parentGot, childGot []any
}

func newFamily(t *testing.T, s *shard.Shard, d actor.Directive) *family {
	f := &family{s: s}
	f.parent = spawn(t, s, "parent", func() actor.Actor {
		return &recorder{got: &f.parentGot, onMsg: func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				f.child = s.SpawnChild(ctx, "child", producer(&f.childGot))
			}
		}}
	}, actor.WithSupervisor(s.OneForOne(3, time.Second, decide(d))))
	settle(s)
	f.parentGot, f.childGot = nil, nil
	return f
}

// Messages of both lanes that follow the failed one reach the new incarnation in
// order; the failed one is gone.
func TestRestartReplaysHeld(t *testing.T) {
	s := owned(t, shard.Config{})
	f := newFamily(t, s, actor.RestartDirective)
	s.Tell(f.parent, &note{n: 0, do: func(ctx actor.Context) {
		for i := 1; i <= 9; i++ {
			m := &note{n: i}
			if i == 3 || i == 6 {
				m.do = boom
			}
			if i%2 == 0 {
				ctx.Send(f.child.PID(), m)
			} else {
				s.Tell(f.child, m)
			}
		}
	}})
	settle(s)
	require.Equal(t, []any{
		1, 2, 3, "restarting", "started", 4, 5, 6, "restarting", "started", 7, 8, 9,
	}, f.childGot)
	require.EqualValues(t, 2, s.Stats().Failures)
}

func TestResumeKeepsIncarnation(t *testing.T) {
	s := owned(t, shard.Config{})
	f := newFamily(t, s, actor.ResumeDirective)
	s.Tell(f.child, &note{n: 1, do: boom})
	s.Tell(f.child, &note{n: 2})
	settle(s)
	require.Equal(t, []any{1, 2}, f.childGot)
}

// A stopped actor's messages, held, queued and later ones, are canceled.
func TestStopCancels(t *testing.T) {
	s := owned(t, shard.Config{})
	f := newFamily(t, s, actor.StopDirective)
	var canceled []int
	tell := func(n int) {
		s.Tell(f.child, &lost{note{n: n}, func() { canceled = append(canceled, n) }})
	}
	s.Tell(f.child, &note{n: 1, do: boom})
	tell(2)
	s.Tell(f.child, &note{n: 3})
	tell(4)
	settle(s)
	require.Equal(t, []any{1, "stopping", "stopped"}, f.childGot)
	tell(5)
	settle(s)
	require.Equal(t, []int{2, 4, 5}, canceled)
	require.EqualValues(t, 1, s.Stats().Canceled)
	s.Tell(shard.Ref{}, &note{})
	require.EqualValues(t, 2, s.Stats().Canceled)
	require.Len(t, f.parentGot, 1)
	require.Equal(t, f.child.PID(), f.parentGot[0].(*actor.Terminated).Who)
}

// Escalation fails the parent, whose own supervisor, the shard's root, restarts
// it; that ends the child and starts another.
func TestEscalate(t *testing.T) {
	s := owned(t, shard.Config{})
	f := newFamily(t, s, actor.EscalateDirective)
	old := f.child
	s.Tell(f.child, &note{n: 1, do: boom})
	s.Tell(f.parent, &note{n: 2})
	settle(s)
	require.Equal(t, []any{1, "stopping", "stopped", "started"}, f.childGot)
	require.NotEqual(t, old, f.child)
	require.Equal(t, "restarting", f.parentGot[0])
	require.Contains(t, f.parentGot, any("started"))
	require.Equal(t, 2, f.parentGot[len(f.parentGot)-1])
}

// The window of restarts is measured by the shard's clock.
func TestRestartWindow(t *testing.T) {
	var now clock.Manual
	s := owned(t, shard.Config{Clock: &now})
	f := newFamily(t, s, actor.RestartDirective)
	fail := func() {
		f.childGot = nil
		s.Tell(f.child, &note{n: 1, do: boom})
		settle(s)
	}
	for range 10 {
		fail()
		require.Equal(t, []any{1, "restarting", "started"}, f.childGot)
		now.Advance(400 * time.Millisecond) // three in a second are allowed
	}
	for range 2 {
		fail()
	}
	require.Equal(t, []any{1, "stopping", "stopped"}, f.childGot)
}

// A poller's panic is its actor's failure; an actor that panics while it stops
// stops all the same.
func TestPanicWhileStopping(t *testing.T) {
	for _, when := range []string{"stopping", "stopped", "terminated"} {
		t.Run(when, func(t *testing.T) {
			s := owned(t, shard.Config{})
			var got []any
			ref := spawn(t, s, "x", func() actor.Actor {
				return &recorder{got: &got, onMsg: func(ctx actor.Context) {
					switch ctx.Message().(type) {
					case *actor.Stopping:
						if when != "stopped" {
							panic(when)
						}
					case *actor.Stopped:
						if when == "stopped" {
							panic(when)
						}
					case *actor.Terminated:
						if when == "terminated" {
							panic(when)
						}
					}
				}}
			})
			settle(s)
			canceled := false
			s.Stop(ref)
			s.Tell(ref, &lost{note{n: 1}, func() { canceled = true }})
			settle(s)
			require.True(t, canceled, got)
			again := spawn(t, s, "x", producer(&got)) // its name is free
			require.NotEqual(t, ref, again)
		})
	}
}

type panicky struct{ polls, flushes int }

func (p *panicky) Poll(*shard.Shard) int {
	p.polls++
	if p.polls == 1 {
		panic("poll")
	}
	return 0
}
func (p *panicky) Flush(*shard.Shard) { p.flushes++ }
func (p *panicky) Arm() bool          { return true }
func (p *panicky) FDs() []int         { return nil }

func TestPollerPanic(t *testing.T) {
	var log bytes.Buffer
	s := owned(t, shard.Config{Name: "poll", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var got []any
	ref := spawn(t, s, "device", producer(&got))
	settle(s)
	bad, good := &panicky{}, &panicky{polls: 1}
	s.AddPoller(ref, bad)
	s.AddPoller(ref, good)
	s.Turn()
	require.Equal(t, 1, bad.polls)
	require.Equal(t, []any{"started", "restarting", "started"}, got)
	require.Contains(t, log.String(), "poll/device")
	s.Turn()
	require.Equal(t, 2, bad.polls)
	require.Equal(t, 2, good.polls) // not while its actor was suspended
	s.RemovePoller(bad)
	s.Turn()
	require.Equal(t, 2, bad.polls)
	s.Stop(ref)
	settle(s)
	polls := good.polls
	s.Turn()
	require.Equal(t, polls, good.polls, "a stopped actor's poller was called")
}
