package shard_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

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
	s := newShard(t, shard.Config{Mode: shard.Cooperative})
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
