package peer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBlocks: memory for copied packets is of the asked length, and comes back.
func TestBlocks(t *testing.T) {
	var b blocks
	for _, n := range []int{1, 63, 64, 65, 8760, 1 << 16, 1<<16 + 1} {
		p := b.get(n)
		require.Len(t, p, n)
		p[n-1] = 7
		b.put(p)
		if n <= 1<<16 {
			again := b.get(n)
			require.Same(t, &p[0], &again[0], "%d bytes", n)
			b.put(again)
		}
	}
	// What is kept is bounded.
	for range 600 {
		b.put(make([]byte, 1<<16))
	}
	require.LessOrEqual(t, b.kept, keepBytes)
	before := b.kept
	b.put(make([]byte, 100)) // not one of ours: no power of two
	require.Equal(t, before, b.kept)
}

// TestCharge: bytes are counted for the peer and for the endpoint, with the most that there
// were at a time.
func TestCharge(t *testing.T) {
	for _, x := range []struct {
		name              string
		charge, uncharge  []int
		left, peak, total int64
	}{
		{name: "nothing", total: 5},
		{name: "one", charge: []int{100}, left: 100, peak: 100, total: 105},
		{name: "several", charge: []int{1, 2, 3}, left: 6, peak: 6, total: 11},
		{name: "and back", charge: []int{1, 2, 3}, uncharge: []int{3, 2, 1}, peak: 6, total: 5},
		{name: "a part", charge: []int{500, 500}, uncharge: []int{300}, left: 700, peak: 1000, total: 705},
	} {
		t.Run(x.name, func(t *testing.T) {
			env := &Env{}
			env.Config.PeerMemory, env.Config.TotalMemory = 1000, 1000
			env.Mem.Strangers = 5
			l := &Link{env: env}
			for _, n := range x.charge {
				l.Charge(n)
			}
			for _, n := range x.uncharge {
				l.Uncharge(n)
			}
			require.Equal(t, len(x.charge) > 0, env.Weigh)
			require.Equal(t, x.left, l.Charged())
			require.Equal(t, x.left, env.Mem.Charged)
			require.Equal(t, x.peak, env.Mem.Peak)
			require.Equal(t, x.total, env.Mem.Total())
			require.False(t, l.load.flags.has(heldBack))
			require.Zero(t, env.HeldBack.Len())
		})
	}
}

// TestRelieve: peers stay held back while they are above three quarters of PeerMemory, or all
// together above TotalMemory.
func TestRelieve(t *testing.T) {
	for _, x := range []struct {
		peer, all int64
	}{
		{peer: 751, all: 751},
		{peer: 1000, all: 1000},
		{peer: 750, all: 2001},
		{peer: 0, all: 2001},
	} {
		env := &Env{}
		env.Config.PeerMemory, env.Config.TotalMemory = 1000, 2000
		env.Mem.Charged = x.all
		l := &Link{env: env, load: load{charged: x.peer, flags: heldBack}}
		env.HeldBack.links = []*Link{l}
		env.HeldBack.Relieve()
		require.True(t, l.load.flags.has(heldBack), "%+v", x)
		require.Equal(t, 1, env.HeldBack.Len())
	}
}
