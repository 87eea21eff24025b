package ope_test

import (
	"runtime"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
)

// TestFootprint: an idle operation with its actor takes at most 1 KiB.
func TestFootprint(t *testing.T) {
	sh, err := shard.New(shard.Config{External: true, Seed: 1})
	require.NoError(t, err)
	require.True(t, sh.Adopt())
	env := &peer.Env{Sh: sh, Pool: &peer.Pool{}}
	pools := ope.NewPools(env, func(p actor.Producer) shard.Ref {
		ref, err := sh.Spawn("", p)
		require.NoError(t, err)
		return ref
	})
	const n = 8192
	for _, c := range []struct {
		name string
		get  func() bool
	}{
		{"txe", func() bool { return pools.GetTx() != nil }},
		{"rxe", func() bool { return pools.GetRx() != nil }},
	} {
		before := heap()
		for range n {
			require.True(t, c.get())
		}
		for sh.Turn() > 0 {
		}
		each := (heap() - before) / n
		t.Logf("%s: %d bytes", c.name, each)
		require.LessOrEqual(t, each, uint64(1024), c.name)
	}
	runtime.KeepAlive(pools)
	sh.Release()
	require.NoError(t, sh.Close())
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
