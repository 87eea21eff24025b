package peer

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/wire"
)

// TestLooseWindow: every message begins once, at its first packet if that is within reach, and
// what is kept comes out in its turn.
func TestLooseWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "size")
		first := rapid.SampledFrom([]uint32{0, 5, 0x7ffffffa, 0xfffffff0, 0xffffffff}).Draw(t, "first")
		w := NewWindow(size, first)
		w.KeepNoOrder()
		exp, kept := first, 0
		begun := make(map[uint32]bool)
		waits := make(map[uint32]int)
		far := func() (n uint32) {
			for id := range begun {
				n = max(n, id-exp)
			}
			for id, k := range waits {
				if k > 0 {
					n = max(n, id-exp)
				}
			}
			return n
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			d := rapid.OneOf(rapid.IntRange(-3, 12), rapid.IntRange(reach-3, reach+12)).Draw(t, "ahead")
			p := &Packet{Header: Header{Eager: wire.Eager{MsgID: exp + uint32(d)}}}
			id := p.MsgID
			switch v := w.Place(p); {
			case d < 0 || begun[id]:
				require.Equal(t, Stale, v)
			case d == 0:
				require.Equal(t, InOrder, v)
				for out := p; out != nil; {
					out = w.Advance()
					for exp++; begun[exp] && waits[exp] == 0; exp++ {
						delete(begun, exp)
					}
					n := 0
					for q := out; q != nil; q = q.Next {
						require.Equal(t, exp, q.MsgID)
						n++
					}
					if out != nil {
						require.Equal(t, begun[exp], out.Aborted, "a message begins twice")
					}
					require.Equal(t, waits[exp], n)
					kept -= n
					delete(begun, exp)
					delete(waits, exp)
				}
				require.Equal(t, exp, w.Expected())
			case d < reach:
				require.Equal(t, Unordered, v)
				begun[id] = true
			default:
				require.Contains(t, []Verdict{Kept, Overflowed}, v)
				waits[id]++
				kept++
			}
			require.Equal(t, kept, w.Kept())
			require.Equal(t, exp+far(), w.Last())
			require.Equal(t, begun[exp+3], w.Begun(exp+3))
		}
		out := 0
		w.Drain(func(*Packet) { out++ })
		require.Equal(t, kept, out)
		require.Zero(t, w.Kept())
	})
}
