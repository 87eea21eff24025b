//go:build linux

package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSlotsAreShared: a peer that sends all the time does not get all receives if there are
// others.
func TestSlotsAreShared(t *testing.T) {
	const slots = 64
	var all []int32
	for s := range int32(slots) {
		all = append(all, s)
	}
	takes := func(b *inbox, r *remote, others bool) (list []int32) {
		for s, ok := b.take(r, others); ok; s, ok = b.take(r, others) {
			list = append(list, s)
		}
		return list
	}
	b := newInbox(slots, 1, 1, make([]byte, slots))
	b.post(all)
	var greedy, another, third remote
	require.Len(t, takes(&b, &greedy, false), slots, "alone")
	b.post(all)
	require.Zero(t, greedy.slots)
	mine := takes(&b, &greedy, true)
	require.Len(t, mine, 48)
	require.Len(t, takes(&b, &another, true), 12)
	require.Len(t, takes(&b, &third, true), 3)
	b.post(mine[:8])
	require.Len(t, takes(&b, &third, true), 6)
	require.Empty(t, takes(&b, &greedy, true), "it has more than its share")
	b.post(mine[8:16])
	s, ok := b.take(&another, true)
	require.True(t, ok)
	b.giveBack(s)
	require.EqualValues(t, 12, another.slots)
}
