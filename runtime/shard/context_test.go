package shard_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/shard"
)

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
