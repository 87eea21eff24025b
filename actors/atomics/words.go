package atomics

import (
	"encoding/binary"
	"math/bits"
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

// bigEndian reports whether this host's byte order differs from that of packets.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// native reads an element of memory; p is as long as U and may lie anywhere.
func native[U unsigned](p []byte) U { return inOrder(little[U](p), bigEndian) }

func putNative[U unsigned](p []byte, v U) { putLittle(p, inOrder(v, bigEndian)) }

// inOrder reverses the bytes of v if reverse is set.
func inOrder[U unsigned](v U, reverse bool) U {
	if !reverse {
		return v
	}
	return U(bits.ReverseBytes64(uint64(v)) >> (64 - 8*unsafe.Sizeof(v)))
}

// little reads an element of a packet; p is as long as U.
func little[U unsigned](p []byte) U {
	switch unsafe.Sizeof(U(0)) {
	case 1:
		return U(p[0])
	case 2:
		return U(binary.LittleEndian.Uint16(p))
	case 4:
		return U(binary.LittleEndian.Uint32(p))
	default:
		return U(binary.LittleEndian.Uint64(p))
	}
}

func putLittle[U unsigned](p []byte, v U) {
	switch unsafe.Sizeof(v) {
	case 1:
		p[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(p, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(p, uint32(v))
	default:
		binary.LittleEndian.PutUint64(p, uint64(v))
	}
}

// wide is an integer of 128 bits.
type wide struct{ lo, hi uint64 }

// below reports whether v is less than w.
func (v wide) below(w wide, signed bool) bool {
	if v.hi != w.hi {
		if signed {
			return int64(v.hi) < int64(w.hi)
		}
		return v.hi < w.hi
	}
	return v.lo < w.lo
}

func (v wide) plus(w wide) wide {
	lo, carry := bits.Add64(v.lo, w.lo, 0)
	hi, _ := bits.Add64(v.hi, w.hi, carry)
	return wide{lo, hi}
}

func (v wide) minus(w wide) wide {
	lo, borrow := bits.Sub64(v.lo, w.lo, 0)
	hi, _ := bits.Sub64(v.hi, w.hi, borrow)
	return wide{lo, hi}
}

func (v wide) times(w wide) wide {
	hi, lo := bits.Mul64(v.lo, w.lo)
	return wide{lo, hi + v.lo*w.hi + v.hi*w.lo}
}

// wideStep is the arithmetic of one element.
func wideStep(op wire.AtomicOp, signed bool, t, o, c wide) wide {
	swap := false
	switch op {
	case wire.OpMin:
		swap = o.below(t, signed)
	case wire.OpMax:
		swap = t.below(o, signed)
	case wire.OpSum:
		return t.plus(o)
	case wire.OpDiff:
		return t.minus(o)
	case wire.OpProd:
		return t.times(o)
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		return wide{lo: uint64(bit(logic(op, t != wide{}, o != wide{})))}
	case wire.OpBOr:
		return wide{t.lo | o.lo, t.hi | o.hi}
	case wire.OpBAnd:
		return wide{t.lo & o.lo, t.hi & o.hi}
	case wire.OpBXor:
		return wide{t.lo ^ o.lo, t.hi ^ o.hi}
	case wire.OpMSwap:
		return wide{o.lo&c.lo | t.lo&^c.lo, o.hi&c.hi | t.hi&^c.hi}
	case wire.OpWrite, wire.OpCSwap, wire.OpCSwapNE:
		swap = op == wire.OpWrite || (c == t) == (op == wire.OpCSwap)
	case wire.OpCSwapLE:
		swap = !t.below(c, signed)
	case wire.OpCSwapLT:
		swap = c.below(t, signed)
	case wire.OpCSwapGE:
		swap = !c.below(t, signed)
	case wire.OpCSwapGT:
		swap = t.below(c, signed)
	default: // OpRead
	}
	if swap {
		return o
	}
	return t
}

// lockedWide updates integers of 128 bits.
func (a *args) lockedWide(signed bool) {
	eachRun(a.target, 16, func(from, to int) {
		target := a.target[from:to]
		old := nativeWide(target)
		if v := wideStep(a.op, signed, old, littleWide(a.operand[from:to]), littleWide(a.compare[from:to])); v != old {
			putNativeWide(target, v)
		}
		if a.result != nil {
			binary.LittleEndian.PutUint64(a.result[from:], old.lo)
			binary.LittleEndian.PutUint64(a.result[from+8:], old.hi)
		}
	})
}

func littleWide(p []byte) wide {
	return wide{binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])}
}

func nativeWide(p []byte) wide {
	first, second := native[uint64](p), native[uint64](p[8:])
	if bigEndian {
		return wide{second, first}
	}
	return wide{first, second}
}

func putNativeWide(p []byte, v wide) {
	if bigEndian {
		v.lo, v.hi = v.hi, v.lo
	}
	putNative(p, v.lo)
	putNative(p[8:], v.hi)
}
