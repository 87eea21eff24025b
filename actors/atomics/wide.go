package atomics

import (
	"encoding/binary"
	"math/bits"

	"github.com/efactor/efactor/wire"
)

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
