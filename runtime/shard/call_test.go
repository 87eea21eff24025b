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
