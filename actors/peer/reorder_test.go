package peer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// TestWindowOrder offers packets of messages in random order, up to three of a
// message, to windows of all kinds of sizes, beginning before the ids wrap.
func TestWindowOrder(t *testing.T) {
	for _, size := range []int{1, 2, 3, 13, 16, 100, 4096} {
		for _, first := range []uint32{0, 1, 1<<32 - 1, 1<<32 - 20, 1 << 31} {
			t.Run(fmt.Sprintf("size=%d/first=%d", size, first), func(t *testing.T) {
				testWindow(t, size, first, rand.New(rand.NewPCG(uint64(size), uint64(first))))
			})
		}
	}
}

func testWindow(t *testing.T, size int, first uint32, rng *rand.Rand) {
	const messages = 200
	w := NewWindow(size, first)
	var all []*Packet
	want := make(map[uint32]int)
	for i := range uint32(messages) {
		for range 1 + rng.IntN(3) {
			all = append(all, &Packet{Header: Header{Eager: wire.Eager{MsgID: first + i}}})
			want[first+i]++
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	next, held, late := first, 0, 0
	got := make(map[uint32]int)
	// What the peer does: a message's turn begins with its first packet, further
	// ones then go past the window.
	begin := func(p *Packet) {
		for p != nil {
			for ; p != nil; p = p.Next {
				require.Equal(t, next, p.MsgID)
				got[next]++
			}
			held = w.Held()
			next++
			p = w.Advance()
			require.Equal(t, next, w.Expected())
		}
	}
	for _, p := range all {
		before := w.Held()
		switch v := w.Place(p); v {
		case InOrder:
			require.Equal(t, next, p.MsgID)
			begin(p)
		case Stale:
			require.Positive(t, int32(next-p.MsgID))
			got[p.MsgID]++
			late++
		case Held, Overflowed:
			require.Equal(t, v == Overflowed, p.MsgID-next >= uint32(size))
			require.Equal(t, before+1, w.Held())
		}
	}
	require.Equal(t, first+messages, next)
	require.Equal(t, want, got)
	require.Zero(t, w.Held(), "held before the last turn: %d", held)
	require.Positive(t, late)
}

// TestWindowDrain: everything comes out, the ring's packets and then those beyond
// it by id.
func TestWindowDrain(t *testing.T) {
	const first uint32 = 1<<32 - 3
	w := NewWindow(4, first)
	for _, d := range []uint32{9, 2, 7, 1, 2} {
		w.Place(&Packet{Header: Header{Eager: wire.Eager{MsgID: first + d}}})
	}
	require.Equal(t, 5, w.Held())
	var out []uint32
	w.Drain(func(p *Packet) {
		require.Nil(t, p.Next)
		out = append(out, p.MsgID-first)
	})
	require.Equal(t, []uint32{1, 2, 2, 7, 9}, out)
	require.Zero(t, w.Held())
	require.Equal(t, InOrder, w.Place(&Packet{Header: Header{Eager: wire.Eager{MsgID: first}}}))
}
