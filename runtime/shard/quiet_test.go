package shard_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/shard"
)

// TestQuiet: a message that an actor or a poller has told is under way until it is
// handled, whichever way it goes.
func TestQuiet(t *testing.T) {
	s := owned(t, shard.Config{})
	var got []any
	a := spawn(t, s, "a", producer(&got))
	settle(s)
	require.True(t, s.Quiet())
	s.Tell(a, &note{n: 1, do: func(actor.Context) {
		require.True(t, s.Quiet(), "the last one is at work")
		s.Tell(a, &note{n: 2})
		require.False(t, s.Quiet())
	}})
	require.False(t, s.Quiet())
	settle(s)
	require.Equal(t, []any{"started", 1, 2}, got)
	require.True(t, s.Quiet())
}

// TestBlame: a panic is the failure of who was blamed for what is called, and the
// handler that had called it goes on with its next message.
func TestBlame(t *testing.T) {
	s := owned(t, shard.Config{})
	var got, guards []any
	a, guard := spawn(t, s, "a", producer(&got)), spawn(t, s, "guard", producer(&guards))
	settle(s)
	s.Tell(a, &note{n: 1, do: func(actor.Context) {
		before := s.Blame(guard)
		require.Equal(t, a, before)
		s.Blame(before)
	}})
	s.Tell(a, &note{n: 2, do: func(actor.Context) {
		s.Blame(guard)
		panic("boom")
	}})
	s.Tell(a, &note{n: 3})
	settle(s)
	require.Equal(t, []any{"started", 1, 2, 3}, got)
	require.Equal(t, []any{"started", "restarting", "started"}, guards)
}
