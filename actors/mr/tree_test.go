package mr

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// TestCopies: what n registrations and their ends copy grows with n, and with the height of
// the tree, not with the square of n.
func TestCopies(t *testing.T) {
	const n, height = 1 << 14, 4
	var table Table
	mem := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	regions := make([]*Region, n)
	for i, at := range rng.Perm(n) {
		regions[i] = table.Add(&fakeMR{mem: mem[at : at+1], addr: uint64(at), key: uint64(rng.Uint32())<<16 | uint64(i)}, everything)
	}
	require.Equal(t, n, table.Len())
	require.LessOrEqual(t, table.makes.copied, n*2*height*fanout)
	for i := range mem {
		require.NotNil(t, table.Find(mem[i:i+1]))
	}
	for _, r := range regions {
		got, _, err := table.Resolve(0, wire.RMAIOV{Addr: r.Addr(0), Len: 1, Key: r.Key(0)}, readable)
		require.NoError(t, err)
		require.Same(t, r, got)
	}
	before := table.makes.copied
	for i, at := range rng.Perm(n) {
		regions[at].Retire()
		require.Equal(t, n-1-i, table.Len())
	}
	require.LessOrEqual(t, table.makes.copied-before, n*2*height*fanout)
	require.Nil(t, table.load().byKey)
	require.Nil(t, table.load().byBase)
}

// TestShrunk: a tree that was large and lost most of its regions is as low as a small one.
func TestShrunk(t *testing.T) {
	var table Table
	mem := make([]byte, 1<<13)
	var all []*Region
	for i := range mem {
		all = append(all, table.Add(&fakeMR{mem: mem[i : i+1], key: uint64(i)}, everything))
	}
	for i, r := range all {
		if i%1024 != 0 {
			r.Retire()
		}
	}
	require.Equal(t, len(all)/1024, table.Len())
	height := 0
	for n := table.load().byBase; n != nil; height++ {
		if n.kids == nil {
			break
		}
		n = n.kids[0]
	}
	require.LessOrEqual(t, height, 1)
}
