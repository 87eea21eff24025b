package atomics

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/efactor/efactor/wire"
)

// aligned reports whether the elements of p, of that many bytes each, are aligned.
func aligned(p []byte, size uintptr) bool { return address(p)%size == 0 }

// words64 updates words of 64 bits: by compare and swap if they are aligned. Sums of
// integers, the most frequent operation, need no loop.
func (a *args) words64(f step[uint64], integers bool) {
	if !aligned(a.target, 8) {
		f.locked(a)
		return
	}
	le, sum := binary.LittleEndian, integers && a.op == wire.OpSum
	for i := 0; i < len(a.target); i += 8 {
		p := (*uint64)(unsafe.Pointer(&a.target[i : i+8][0]))
		operand, compare := le.Uint64(a.operand[i:]), le.Uint64(a.compare[i:])
		var old uint64
		if sum {
			old = atomic.AddUint64(p, operand) - operand
		} else {
			for {
				old = atomic.LoadUint64(p)
				v := f(a.op, old, operand, compare)
				if v == old || atomic.CompareAndSwapUint64(p, old, v) {
					break
				}
			}
		}
		if a.result != nil {
			le.PutUint64(a.result[i:], old)
		}
	}
}

// words32 is words64 for 32 bits.
func (a *args) words32(f step[uint32], integers bool) {
	if !aligned(a.target, 4) {
		f.locked(a)
		return
	}
	le, sum := binary.LittleEndian, integers && a.op == wire.OpSum
	for i := 0; i < len(a.target); i += 4 {
		p := (*uint32)(unsafe.Pointer(&a.target[i : i+4][0]))
		operand, compare := le.Uint32(a.operand[i:]), le.Uint32(a.compare[i:])
		var old uint32
		if sum {
			old = atomic.AddUint32(p, operand) - operand
		} else {
			for {
				old = atomic.LoadUint32(p)
				v := f(a.op, old, operand, compare)
				if v == old || atomic.CompareAndSwapUint32(p, old, v) {
					break
				}
			}
		}
		if a.result != nil {
			le.PutUint32(a.result[i:], old)
		}
	}
}
