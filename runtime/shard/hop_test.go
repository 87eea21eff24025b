package shard_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/shard"
)

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
