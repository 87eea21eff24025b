package atomics

import (
	"testing"
	"unsafe"

	"github.com/efactor/efactor/wire"
)

// memory returns n zeroed bytes that begin with a line.
func memory(n int) []byte {
	words := make([]uint64, (n+lineSize)/8+1)
	p := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	for address(p)%lineSize != 0 {
		p = p[8:]
	}
	return p[:n]
}

func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name  string
		op    wire.AtomicOp
		t     wire.Datatype
		form  Form
		shift int // of the target
		n     int
	}{
		{"op=SUM/type=UINT64/n=1", wire.OpSum, wire.DatatypeUint64, Write, 0, 1},
		{"op=SUM/type=UINT64/n=1000", wire.OpSum, wire.DatatypeUint64, Write, 0, 1000},
		{"op=SUM/type=UINT64/n=1/unaligned", wire.OpSum, wire.DatatypeUint64, Write, 1, 1},
		{"op=SUM/type=DOUBLE/n=1", wire.OpSum, wire.DatatypeDouble, Write, 0, 1},
		{"op=MAX/type=INT32/n=1", wire.OpMax, wire.DatatypeInt32, Fetch, 0, 1},
		{"op=CSWAP/type=UINT64/n=1", wire.OpCSwap, wire.DatatypeUint64, Compare, 0, 1},
		{"op=BOR/type=UINT8/n=1000", wire.OpBOr, wire.DatatypeUint8, Write, 0, 1000},
		{"op=SUM/type=DOUBLE_COMPLEX/n=1", wire.OpSum, wire.DatatypeDoubleComplex, Write, 0, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := c.n * c.t.Size()
			target, operand := memory(n + c.shift)[c.shift:], memory(n)
			operand[n-1] = 1
			b.ReportAllocs()
			for b.Loop() {
				if err := Apply(c.op, c.t, c.form, target, operand, operand, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
