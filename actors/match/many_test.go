package match

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManyStaysFirst: a receive of many messages takes every message that matches, before
// younger receives and after older ones, until it is removed.
func TestManyStaysFirst(t *testing.T) {
	table := New()
	older := &Recv{Kind: Tagged, Tag: 5, Source: AnySource}
	many := &Recv{Kind: Tagged, Many: true, Ignore: all, Source: AnySource}
	next := &Recv{Kind: Tagged, Many: true, Ignore: all, Source: AnySource}
	younger := &Recv{Kind: Tagged, Tag: 5, Source: 1}
	for _, r := range []*Recv{older, many, next, younger} {
		require.Nil(t, table.Post(r))
	}
	require.Same(t, older, table.Arrive(Tagged, 5, 1))
	for tag := range uint64(100) {
		require.Same(t, many, table.Arrive(Tagged, tag, 1))
	}
	require.Nil(t, table.Arrive(Untagged, 0, 1))
	require.Equal(t, 3, table.Recvs())
	require.True(t, table.RemoveRecv(many))
	require.Same(t, next, table.Arrive(Tagged, 5, 1))
	require.True(t, table.RemoveRecv(next))
	require.Same(t, younger, table.Arrive(Tagged, 5, 1))
	require.Zero(t, table.Recvs())
}

// TestManyTakesWhatWaits: posted again and again it gets the messages that wait, oldest first,
// and stands in the table when there is none left.
func TestManyTakesWhatWaits(t *testing.T) {
	table := New()
	msgs := make([]Msg, 50)
	for i := range msgs {
		msgs[i] = Msg{Kind: Tagged, Tag: uint64(i % 2), Source: 1}
		table.AddMsg(&msgs[i])
	}
	r := &Recv{Kind: Tagged, Many: true, Tag: 1, Source: AnySource}
	for i := 1; i < len(msgs); i += 2 {
		require.Same(t, &msgs[i], table.Post(r))
	}
	require.Nil(t, table.Post(r))
	require.Equal(t, 1, table.Recvs())
	require.Equal(t, 25, table.Msgs())
	require.Zero(t, testing.AllocsPerRun(100, func() { table.Arrive(Tagged, 1, 1) }))
}
