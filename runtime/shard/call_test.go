package shard_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/shard"
)

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
		require.True(t, shard.Unburdened(s, ref))
		require.True(t, s.Enter(ref))
		require.False(t, shard.Unburdened(s, ref))
	}
	for range 3 {
		s.Exit()
	}
	require.True(t, s.Enter(a))
	s.Exit()
}

// cuttable is an actor that enters others in its Poll and counts how often it was cut short.
type cuttable struct {
	actor.ReceiveFunc
	panicky
	enter []shard.Ref
	cuts  int
}

func (c *cuttable) Poll(s *shard.Shard) int {
	if c.polls++; c.polls > 1 {
		return 0
	}
	for _, ref := range c.enter {
		if !s.Enter(ref) {
			return 0
		}
	}
	panic("boom")
}

func (c *cuttable) Cut() { c.cuts++ }

// TestCut: a panic cuts short those who were at work or had called who was, and nobody else.
func TestCut(t *testing.T) {
	s := owned(t, shard.Config{})
	var got [4]*cuttable
	var refs []shard.Ref
	for i := range got {
		got[i] = &cuttable{ReceiveFunc: func(actor.Context) {}}
		refs = append(refs, spawn(t, s, "", func() actor.Actor { return got[i] }))
	}
	settle(s)
	got[0].enter = refs[1:3]
	s.AddPoller(refs[0], got[0])
	s.Turn()
	s.Turn()
	require.EqualValues(t, 1, s.Stats().Failures)
	require.Equal(t, 2, got[0].polls, "it has not failed")
	for i, cuts := range []int{1, 1, 1, 0} {
		require.Equal(t, cuts, got[i].cuts, i)
	}
	require.True(t, s.Enter(refs[1]))
	s.Exit()
}

// TestApart: a panic of an actor that is entered apart is its failure, and who called goes on, without
// having been cut; one of the caller's own goes on to its caller.
func TestApart(t *testing.T) {
	s := owned(t, shard.Config{})
	outer, inner := &cuttable{ReceiveFunc: func(actor.Context) {}}, &cuttable{ReceiveFunc: func(actor.Context) {}}
	a := spawn(t, s, "a", func() actor.Actor { return outer })
	b := spawn(t, s, "b", func() actor.Actor { return inner })
	settle(s)
	require.True(t, s.Enter(a))
	shard.Apart(s, func() {
		require.True(t, s.Enter(b))
		panic("boom")
	})
	require.Equal(t, 1, inner.cuts)
	require.Zero(t, outer.cuts)
	require.False(t, s.Enter(a), "it is at work")
	require.False(t, s.Enter(b), "it awaits its supervisor")
	require.Panics(t, func() { shard.Apart(s, func() { panic("boom") }) })
	require.EqualValues(t, 1, s.Stats().Failures)
	s.Exit()
	settle(s)
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
