package ope

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/runtime/clock"
)

// TestOrders: each entry is found by its index, across slabs, and comes back as new.
func TestOrders(t *testing.T) {
	var all Entries
	const n = 2*orderSlab + 1
	seen := map[int32]bool{}
	var got []*Entry
	for i := range n {
		o := all.Get(&Request{Kind: KindRecv, ID: uint64(i)}, clock.Time(i))
		require.False(t, seen[o.Recv.Owner])
		seen[o.Recv.Owner] = true
		require.Same(t, o, all.At(o.Recv.Owner))
		require.EqualValues(t, i, o.Req.ID)
		require.Equal(t, clock.Time(i), o.Born)
		got = append(got, o)
	}
	require.Len(t, all.slabs, 3)
	first := got[0]
	index := first.Recv.Owner
	first.Span, first.Multi, first.Recv.Many, first.Req.Buf = 7, new(MultiRecv), true, make([]byte, 3)
	all.Put(first)
	require.Zero(t, first.Req, "it refers to no memory")
	again := all.Get(&Request{Kind: KindSend}, 5)
	require.Same(t, first, again, "the last one back is the next")
	require.Zero(t, again.Span)
	require.Nil(t, again.Multi)
	require.Equal(t, match.Recv{Owner: index}, again.Recv)
	for _, o := range got {
		all.Put(o)
	}
	for range n {
		all.Take(&Request{})
	}
	require.Len(t, all.slabs, 3, "entries are used again")
}
