package atomics

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/wire"
)

func TestLengths(t *testing.T) {
	const none = -1 // nil
	for _, c := range []struct {
		op                               wire.AtomicOp
		form                             Form
		target, operand, compare, result int
		ok                               bool
	}{
		{wire.OpSum, Write, 16, 16, none, none, true},
		{wire.OpSum, Write, 16, 17, none, none, true},
		{wire.OpSum, Write, 16, 16, 3, none, true}, // a comparand of no use
		{wire.OpSum, Write, 16, 15, none, none, false},
		{wire.OpSum, Write, 16, none, none, none, false},
		{wire.OpSum, Write, 15, 16, none, none, false},
		{wire.OpSum, Write, 17, 24, none, none, false},
		{wire.OpSum, Write, 1, 8, none, none, false},
		{wire.OpSum, Write, 0, 0, none, none, true},
		{wire.OpSum, Write, none, none, none, none, true},
		{wire.OpSum, Fetch, 16, 16, none, 16, true},
		{wire.OpSum, Fetch, 16, 16, none, 100, true},
		{wire.OpSum, Fetch, 16, 16, none, 15, false},
		{wire.OpSum, Fetch, 16, 16, none, 0, false},
		{wire.OpSum, Fetch, 16, 15, none, 16, false},
		{wire.OpRead, Fetch, 16, none, none, 16, true},
		{wire.OpRead, Fetch, 16, 1, none, 16, true},
		{wire.OpRead, Fetch, 16, none, none, none, true},
		{wire.OpRead, Fetch, 16, none, none, 8, false},
		{wire.OpRead, Fetch, 9, none, none, 16, false},
		{wire.OpCSwapNE, Compare, 16, 16, 16, 16, true},
		{wire.OpCSwapNE, Compare, 16, 16, 16, none, true},
		{wire.OpCSwapNE, Compare, 16, 16, 15, 16, false},
		{wire.OpCSwapNE, Compare, 16, 16, none, 16, false},
		{wire.OpCSwapNE, Compare, 16, 8, 16, 16, false},
		{wire.OpCSwapNE, Compare, 16, 16, 16, 8, false},
	} {
		t.Run(fmt.Sprintf("%v %d %d %d %d", c.op, c.target, c.operand, c.compare, c.result), func(t *testing.T) {
			fill := func(n int, v byte) []byte {
				if n == none {
					return nil
				}
				return bytes.Repeat([]byte{v}, n)
			}
			target, result := fill(c.target, 7), fill(c.result, 9)
			err := Apply(c.op, wire.DatatypeUint64, c.form, target, fill(c.operand, 1), fill(c.compare, 2), result)
			if !c.ok {
				require.Same(t, ErrLength, err)
				require.ErrorIs(t, err, errno.ErrInvalid)
				require.Equal(t, fill(c.target, 7), target)
				require.Equal(t, fill(c.result, 9), result)
				return
			}
			require.NoError(t, err)
			if c.op != wire.OpRead && c.target > 0 {
				require.NotEqual(t, fill(c.target, 7), target)
			}
			if result != nil {
				require.Equal(t, fill(c.target, 7), result[:c.target])
				require.Equal(t, fill(c.result-c.target, 9), result[c.target:])
			}
		})
	}
	require.ErrorIs(t, ErrNotSupported, errno.ErrNotSupported)
}

// TestNoAllocation: neither a result nor an error costs memory.
func TestNoAllocation(t *testing.T) {
	target, operand, result := memory(130), memory(130), memory(130)
	for typ := range wire.Datatype(numTypes) {
		for op := range wire.AtomicOp(numOps) {
			for form := range Compare + 1 {
				require.Zero(t, testing.AllocsPerRun(5, func() {
					for shift := range 2 {
						_ = Apply(op, typ, form, target[shift:][:128], operand, operand, result)
					}
				}), "%v %v", op, typ)
			}
		}
	}
}

// TestByteOrder is about hosts whose memory is not in the order of packets.
func TestByteOrder(t *testing.T) {
	require.Equal(t, uint8(0x12), inOrder(uint8(0x12), true))
	require.Equal(t, uint16(0x3412), inOrder(uint16(0x1234), true))
	require.Equal(t, uint32(0x78563412), inOrder(uint32(0x12345678), true))
	require.Equal(t, uint64(0xefcdab8967452301), inOrder(uint64(0x0123456789abcdef), true))
	require.Equal(t, uint64(0x0123456789abcdef), inOrder(uint64(0x0123456789abcdef), false))
}
