package atomics

import "github.com/efactor/efactor/wire"

// pair holds the bits of a complex number, in the order of memory.
type pair[U unsigned] struct{ re, im U }

// pairStep is the arithmetic of one complex number.
type pairStep[U unsigned] func(op wire.AtomicOp, old, operand, compare pair[U]) pair[U]

// complexPair is the step of the complex numbers.
func complexPair[F float, U unsigned](op wire.AtomicOp, old, operand, compare pair[U]) pair[U] {
	tr, ti := as[F](old.re), as[F](old.im)
	or, oi := as[F](operand.re), as[F](operand.im)
	swap := false
	switch op {
	case wire.OpSum:
		return pair[U]{as[U](tr + or), as[U](ti + oi)}
	case wire.OpDiff:
		return pair[U]{as[U](tr - or), as[U](ti - oi)}
	case wire.OpProd:
		//nolint:unconvert // A conversion keeps the compiler from fusing, so that hosts agree.
		return pair[U]{as[U](F(tr*or) - F(ti*oi)), as[U](F(tr*oi) + F(ti*or))}
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		b := bit(logic(op, tr != 0 || ti != 0, or != 0 || oi != 0))
		return pair[U]{re: as[U](F(b))}
	case wire.OpCSwap, wire.OpCSwapNE:
		equal := as[F](compare.re) == tr && as[F](compare.im) == ti
		swap = equal == (op == wire.OpCSwap)
	case wire.OpWrite:
		swap = true
	default: // OpRead
	}
	if swap {
		return operand
	}
	return old
}

// complexWord is complexPair of FLOAT_COMPLEX as a word of a little-endian host.
func complexWord(op wire.AtomicOp, old, operand, compare uint64) uint64 {
	p := complexPair[float32](op, halves(old), halves(operand), halves(compare))
	return uint64(p.im)<<32 | uint64(p.re)
}

func halves(v uint64) pair[uint32] { return pair[uint32]{uint32(v), uint32(v >> 32)} }
