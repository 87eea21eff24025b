package ope

import (
	"log/slog"
	"math"
	"runtime"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/runtime/shard"
)

// newPools makes the pools of an endpoint on a shard that the test turns.
func newPools(t *testing.T) *Pools {
	t.Helper()
	sh, err := shard.New(shard.Config{External: true, Seed: 1})
	require.NoError(t, err)
	require.True(t, sh.Adopt())
	t.Cleanup(func() {
		sh.Release()
		require.NoError(t, sh.Close())
	})
	env := &peer.Env{Sh: sh, Pool: &peer.Pool{}, Log: slog.New(slog.DiscardHandler)}
	return NewPools(env, func(p actor.Producer) shard.Ref {
		ref, err := sh.Spawn("", p)
		require.NoError(t, err)
		return ref
	})
}

// TestFootprint: an idle operation with its actor takes at most 1 KiB.
func TestFootprint(t *testing.T) {
	pools := newPools(t)
	sh := pools.env.Sh
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
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestFind: an id names one use of one operation.
func TestFind(t *testing.T) {
	p := newPools(t)
	tx, rx := p.GetTx(), p.GetRx()
	require.Equal(t, tx.ref, p.Find(tx.id))
	require.Equal(t, rx.ref, p.Find(rx.id))
	require.NotEqual(t, tx.ref, rx.ref)
	none := shard.Ref{}
	for name, id := range map[string]uint32{
		"a txe that is not in use":   tx.id + 1,
		"an rxe that is not in use":  rx.id + 1,
		"a later use of the txe":     nextID(tx.id),
		"a later use of the rxe":     nextID(rx.id),
		"a txe that there is not":    indexMask,
		"an rxe that there is not":   rxBit | indexMask,
		"the txe's index as an rxe":  tx.id + 7 | rxBit,
		"the highest number of bits": math.MaxUint32,
	} {
		require.Equal(t, none, p.Find(id), name)
	}
	was := tx.id
	tx.link = new(peer.Link)
	tx.freeTx()
	require.Equal(t, none, p.Find(was), "its use is over")
	again := p.GetTx()
	require.Same(t, tx, again, "the last one back is the next")
	require.Equal(t, none, p.Find(was))
	require.Equal(t, tx.ref, p.Find(again.id))
}

// TestNextID: the uses of an index have different ids, until the generations are used up.
func TestNextID(t *testing.T) {
	for _, first := range []uint32{0, 5, 5 | rxBit} {
		seen := map[uint32]bool{}
		id := first
		for !seen[id] {
			seen[id] = true
			id = nextID(id)
			require.Equal(t, first&indexMask, id&indexMask)
			require.Equal(t, first&rxBit, id&rxBit)
		}
		require.Equal(t, first, id)
		require.Len(t, seen, 1<<12)
	}
}

// TestEach goes through the operations in use by the order of their ids.
func TestEach(t *testing.T) {
	p := newPools(t)
	var txs []*Txe
	for range 2 * slab {
		tx := p.GetTx()
		tx.link = new(peer.Link)
		txs = append(txs, tx)
		require.NotNil(t, p.GetRx())
	}
	for i := 0; i < len(txs); i += 2 {
		txs[i].freeTx()
	}
	var got []uint32
	p.EachTx(func(tx *Txe) { got = append(got, tx.id) })
	require.Len(t, got, slab)
	require.IsIncreasing(t, got)
	got = nil
	p.EachRx(func(rx *Rxe) {
		got = append(got, rx.id)
		require.Same(t, rx, p.Rxe(int32(rx.id&indexMask)))
	})
	require.Len(t, got, 2*slab)
	require.IsIncreasing(t, got)
}

// TestOnPaths: the least lengths are those of the path that has the least.
func TestOnPaths(t *testing.T) {
	type path struct{ read, copied int }
	for _, c := range []struct {
		name         string
		paths        []path
		read, gather int
	}{
		{"one", []path{{100, 50}}, 100, 51},
		{"the lesser of two", []path{{100, 50}, {90, 60}}, 90, 51},
		{"one that never reads", []path{{-1, 50}, {90, 60}}, 90, 51},
		{"none reads", []path{{-1, 50}, {0, 60}}, math.MaxInt, 51},
		{"all is copied", []path{{100, math.MaxInt}}, 100, math.MaxInt},
		{"one that copies all", []path{{100, math.MaxInt}, {100, 60}}, 100, 61},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := new(Pools)
			var on []Policy
			for _, x := range c.paths {
				s := policyOf(settings.Settings{})
				s.MinRead, s.MaxCopy = x.read, x.copied
				on = append(on, s)
				p.Infos = append(p.Infos, device.Info{RDMARead: true})
			}
			p.Policy = &on[0]
			p.OnPaths(on)
			require.Equal(t, c.read, p.minRead)
			require.Equal(t, c.gather, p.minGather)
			for i, x := range c.paths { // a message goes by the figure of its own path
				l := &peer.Link{Path: uint8(i)}
				require.False(t, p.mayRead(l, x.read-1))
				require.Equal(t, x.read > 0, p.mayRead(l, max(x.read, 1)))
				require.Equal(t, x.read > 0, p.mayRead(l, 1<<40))
			}
			p.Policy.NoRDMARead = true
			require.False(t, p.mayRead(new(peer.Link), 1<<40))
		})
	}
}
