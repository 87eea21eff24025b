package match

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoAllocation runs a mixed load once to warm up, and then without a single
// allocation: receives of 64 classes and beyond them, and a long queue of messages
// with seven indexes.
func TestNoAllocation(t *testing.T) {
	const n = 2000
	table := New()
	recvs, msgs := make([]Recv, n), make([]Msg, n)
	find := func(tag uint64) {
		table.Find(Tagged, tag, 0, AnySource)
		for ignore := range uint64(6) {
			table.Find(Tagged, tag, ignore, 1)
		}
	}
	load := func() {
		for i := range recvs {
			recvs[i] = Recv{Kind: Tagged, Tag: uint64(i), Ignore: uint64(i % 40), Source: AnySource}
			if i/40%2 == 0 {
				recvs[i].Source = 1
			}
			table.Post(&recvs[i])
		}
		for i := range recvs {
			table.Arrive(Tagged, uint64(n-1-i), 1) // from the end, so that the receives are filed
		}
		for i := range recvs {
			table.RemoveRecv(&recvs[i])
		}
		for i := range msgs {
			msgs[i] = Msg{Kind: Tagged, Tag: uint64(i), Source: NotAvail}
			table.AddMsg(&msgs[i])
			table.Rekey(&msgs[i], 1)
			find(all)
		}
		for i := range msgs {
			table.RemoveMsg(&msgs[i])
			table.AddMsg(&msgs[i])
			find(uint64(i))
		}
		table.EachMsg(func(m *Msg) bool { return table.RemoveMsg(m) })
	}
	load()
	require.Equal(t, 7, bits.OnesCount64(table.spaces[Tagged].indexed))
	require.Len(t, table.spaces[Tagged].classes, maxClasses)
	require.Zero(t, testing.AllocsPerRun(3, load))
	require.Zero(t, table.Recvs()+table.Msgs())
	require.NoError(t, table.verify())
}
