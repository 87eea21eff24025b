package ope_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/actors/ope"
)

// TestLists: whatever the pieces are, a request gives their bytes in their order, and tells
// what lies in them; its lists are taken back once.
func TestLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 9), 1, 20).Draw(t, "pieces")
		req := ope.Request{Kind: ope.KindSend, Flags: ope.Pieced}
		l := req.TakeLists()
		for _, p := range pieces {
			require.True(t, l.AddLocal(p))
		}
		all := slices.Concat(pieces...)
		require.Equal(t, len(all), req.Len())
		b := make([]byte, req.Len())
		require.Equal(t, len(all), req.Gather(b))
		require.True(t, bytes.Equal(all, b))
		for _, p := range pieces {
			require.Equal(t, len(p) > 0, req.Touches(p))
		}
		require.False(t, req.Touches(b))
		req.PutLists()
		require.Nil(t, req.More)
		require.Zero(t, req.Len())
		req.PutLists()
	})
}

// TestListsOverflow: lengths that an int cannot add up are refused, and change nothing.
func TestListsOverflow(t *testing.T) {
	const full = math.MaxInt - 3
	l := ope.More{Total: full}
	b := make([]byte, 4)
	require.False(t, l.AddLocal(b))
	require.EqualValues(t, full, l.Total)
	require.Empty(t, l.Local)
	require.True(t, l.AddLocal(b[:3]))
	require.False(t, l.AddLocal(b[:1]))
	require.EqualValues(t, math.MaxInt, l.Total)
}
