package atomics

import (
	"math"
	"unsafe"

	"github.com/efactor/efactor/wire"
)

type (
	signed   interface{ int8 | int16 | int32 | int64 }
	unsigned interface {
		uint8 | uint16 | uint32 | uint64
	}
	float interface{ float32 | float64 }
)

// step is the arithmetic of one element, given and returned as its bits: what is to
// replace old. A step that keeps the target returns old.
type step[U unsigned] func(op wire.AtomicOp, old, operand, compare U) U

// integer is the step of the integers: T is the type and U the unsigned one of its
// size.
func integer[T signed | unsigned, U unsigned](op wire.AtomicOp, old, operand, compare U) U {
	t, o := T(old), T(operand)
	switch op {
	case wire.OpSum:
		return old + operand
	case wire.OpDiff:
		return old - operand
	case wire.OpProd:
		return old * operand
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		return U(bit(logic(op, t != 0, o != 0)))
	case wire.OpBOr:
		return old | operand
	case wire.OpBAnd:
		return old & operand
	case wire.OpBXor:
		return old ^ operand
	case wire.OpMSwap:
		return operand&compare | old&^compare
	default:
		if replaces(op, t, o, T(compare)) {
			return operand
		}
		return old
	}
}

// floating is the step of the floating-point numbers: U is the unsigned integer of F's
// size.
func floating[F float, U unsigned](op wire.AtomicOp, old, operand, compare U) U {
	t, o := as[F](old), as[F](operand)
	switch op {
	case wire.OpSum:
		return as[U](t + o)
	case wire.OpDiff:
		return as[U](t - o)
	case wire.OpProd:
		return as[U](t * o)
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		return as[U](F(bit(logic(op, t != 0, o != 0))))
	default:
		if replaces(op, t, o, as[F](compare)) {
			return operand
		}
		return old
	}
}

// replaces reports whether an operation that computes nothing puts the operand in the place
// of the target.
func replaces[T signed | unsigned | float](op wire.AtomicOp, target, operand, compare T) bool {
	switch op {
	case wire.OpWrite:
		return true
	case wire.OpMin:
		return target > operand
	case wire.OpMax:
		return target < operand
	case wire.OpCSwap:
		return compare == target
	case wire.OpCSwapNE:
		return compare != target
	case wire.OpCSwapLE:
		return compare <= target
	case wire.OpCSwapLT:
		return compare < target
	case wire.OpCSwapGE:
		return compare >= target
	case wire.OpCSwapGT:
		return compare > target
	default: // OpRead
		return false
	}
}

// logic is LOR, LAND and LXOR.
func logic(op wire.AtomicOp, target, operand bool) bool {
	switch op {
	case wire.OpLOr:
		return target || operand
	case wire.OpLAnd:
		return target && operand
	default:
		return target != operand
	}
}

// bit is C's value of a boolean.
func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// as returns the value with the bits of another one of the same size, as
// math.Float64frombits does.
func as[To, From float | unsigned](v From) To { return *(*To)(unsafe.Pointer(&v)) }

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

// half is a format of 16 bits: a sign, an exponent and so many bits of fraction.
type half struct {
	fraction uint
	bias     int
}

// The two formats that peers have.
var (
	binary16 = half{fraction: 10, bias: 15} // IEEE 754
	bfloat16 = half{fraction: 7, bias: 127} // the upper half of a float32
)

// infinity is the bits of it; what is above is no number.
func (h half) infinity() uint16 { return 0x7fff >> h.fraction << h.fraction }

// value is the number that has the bits, which a float64 holds without loss.
func (h half) value(v uint16) float64 {
	e, m := int(v&0x7fff>>h.fraction), uint64(v&(1<<h.fraction-1))
	sign := uint64(v>>15) << 63
	switch {
	case e == 0: // below the normal numbers: the fraction alone counts
		f := math.Float64frombits(uint64(1024-h.bias-int(h.fraction)) << 52) // of the last bit
		return math.Copysign(float64(m)*f, math.Float64frombits(sign|1))
	case v&0x7fff >= h.infinity():
		return math.Float64frombits(sign | 0x7ff<<52 | m<<(52-h.fraction))
	default:
		return math.Float64frombits(sign | uint64(e-h.bias+1023)<<52 | m<<(52-h.fraction))
	}
}

// bits rounds a number to the nearest that there is, of two that are as near to the even one.
func (h half) bits(v float64) uint16 {
	b := math.Float64bits(v)
	sign, e, m := uint16(b>>63)<<15, int(b>>52&0x7ff)-1023, b&(1<<52-1)|1<<52
	switch {
	case math.IsNaN(v):
		return sign | h.infinity() | 1<<(h.fraction-1)
	case e > h.bias:
		return sign | h.infinity()
	}
	drop, field := 52-h.fraction, e+h.bias-1 // m has the lowest bit of the exponent
	if field < 0 {
		drop, field = drop+uint(-field), 0
		if drop > 54 {
			return sign
		}
	}
	q, rest, middle := m>>drop, m&(1<<drop-1), uint64(1)<<(drop-1)
	if rest > middle || rest == middle && q&1 == 1 {
		q++
	}
	return sign | uint16(uint64(field)<<h.fraction+q)
}

// step is the arithmetic of one element. A sum or product is made in float64, whose rounding
// is so much finer than the second that both together are one.
func (h half) step(op wire.AtomicOp, old, operand, compare uint16) uint16 {
	t, o := h.value(old), h.value(operand)
	switch op {
	case wire.OpSum:
		return h.bits(t + o)
	case wire.OpDiff:
		return h.bits(t - o)
	case wire.OpProd:
		return h.bits(t * o)
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		return h.bits(float64(bit(logic(op, t != 0, o != 0))))
	default:
		if replaces(op, t, o, h.value(compare)) {
			return operand
		}
		return old
	}
}

// Float16 rounds a number to IEEE 754's binary16, and BFloat16 to bfloat16.
func Float16(v float64) uint16 { return binary16.bits(v) }

// BFloat16 is Float16 for the other format.
func BFloat16(v float64) uint16 { return bfloat16.bits(v) }

// FromFloat16 is the number that has the bits.
func FromFloat16(v uint16) float64 { return binary16.value(v) }

// FromBFloat16 is the same of the other format.
func FromBFloat16(v uint16) float64 { return bfloat16.value(v) }
