package peer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/wire"
)

// slowWindow is the same thing written to be obviously right: everything kept in
// one list.
type slowWindow struct {
	exp  uint32
	size int
	kept []*Packet
}

func (w *slowWindow) place(p *Packet) Verdict {
	d := int64(int32(p.MsgID - w.exp))
	switch {
	case d == 0:
		return InOrder
	case d < 0:
		return Stale
	}
	w.kept = append(w.kept, p)
	if d < int64(w.size) {
		return Kept
	}
	return Overflowed
}

func (w *slowWindow) advance() (now []*Packet) {
	w.exp++
	w.kept = slices.DeleteFunc(w.kept, func(p *Packet) bool {
		if p.MsgID == w.exp {
			now = append(now, p)
		}
		return p.MsgID == w.exp
	})
	return now
}

func list(p *Packet) (out []*Packet) {
	for ; p != nil; p = p.Next {
		out = append(out, p)
	}
	return out
}

func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "size")
		first := rapid.SampledFrom([]uint32{0, 5, 0x7ffffffa, 0xfffffff0, 0xffffffff}).Draw(t, "first")
		w, slow := NewWindow(size, first), slowWindow{exp: first, size: size}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			p := &Packet{Header: Header{Eager: wire.Eager{MsgID: slow.exp + uint32(rapid.IntRange(-3, 3*size).Draw(t, "ahead"))}}}
			got, want := w.Place(p), slow.place(p)
			if got != want {
				t.Fatalf("msg_id %d, expected %d: verdict %d, want %d", p.MsgID, slow.exp, got, want)
			}
			for got == InOrder {
				next, also := list(w.Advance()), slow.advance()
				if !slices.Equal(next, also) {
					t.Fatalf("after msg_id %d: %v, want %v", slow.exp-1, next, also)
				}
				if len(next) == 0 {
					break
				}
			}
			if w.Kept() != len(slow.kept) || w.Expected() != slow.exp {
				t.Fatalf("holds %d and expects %d, want %d and %d", w.Kept(), w.Expected(), len(slow.kept), slow.exp)
			}
		}
		var drained []*Packet
		w.Drain(func(p *Packet) { drained = append(drained, p) })
		if len(drained) != len(slow.kept) || w.Kept() != 0 {
			t.Fatalf("drained %d of %d", len(drained), len(slow.kept))
		}
		for _, p := range slow.kept {
			if !slices.Contains(drained, p) {
				t.Fatalf("msg_id %d was not drained", p.MsgID)
			}
		}
	})
}

// TestDrainOrder: what a failed peer had sent is freed in the same order every
// time, wrapped ids last.
func TestDrainOrder(t *testing.T) {
	for range 20 {
		w := NewWindow(2, 0xfffffffe)
		for _, d := range []uint32{9, 1, 4, 2, 7, 4} {
			w.Place(&Packet{Header: Header{Eager: wire.Eager{MsgID: 0xfffffffe + d}}})
		}
		var ids []uint32
		w.Drain(func(p *Packet) { ids = append(ids, p.MsgID-0xfffffffe) })
		require.Equal(t, []uint32{1, 2, 4, 4, 7, 9}, ids)
	}
}

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
			held = w.Kept()
			next++
			p = w.Advance()
			require.Equal(t, next, w.Expected())
		}
	}
	for _, p := range all {
		before := w.Kept()
		switch v := w.Place(p); v {
		case InOrder:
			require.Equal(t, next, p.MsgID)
			begin(p)
		case Stale:
			require.Positive(t, int32(next-p.MsgID))
			got[p.MsgID]++
			late++
		case Kept, Overflowed:
			require.Equal(t, v == Overflowed, p.MsgID-next >= uint32(size))
			require.Equal(t, before+1, w.Kept())
		}
	}
	require.Equal(t, first+messages, next)
	require.Equal(t, want, got)
	require.Zero(t, w.Kept(), "held before the last turn: %d", held)
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
	require.Equal(t, 5, w.Kept())
	var out []uint32
	w.Drain(func(p *Packet) {
		require.Nil(t, p.Next)
		out = append(out, p.MsgID-first)
	})
	require.Equal(t, []uint32{1, 2, 2, 7, 9}, out)
	require.Zero(t, w.Kept())
	require.Equal(t, InOrder, w.Place(&Packet{Header: Header{Eager: wire.Eager{MsgID: first}}}))
}
