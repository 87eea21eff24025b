package atomics

import (
	"math"

	"github.com/efactor/efactor/wire"
)

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
	t, o, c := h.value(old), h.value(operand), h.value(compare)
	switch op {
	case wire.OpSum:
		return h.bits(t + o)
	case wire.OpDiff:
		return h.bits(t - o)
	case wire.OpProd:
		return h.bits(t * o)
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		return h.bits(float64(bit(logic(op, t != 0, o != 0))))
	case wire.OpWrite:
		return operand
	case wire.OpMin:
		if t > o {
			return operand
		}
	case wire.OpMax:
		if t < o {
			return operand
		}
	default:
		if swaps(op, c, t) {
			return operand
		}
	}
	return old
}

// Float16 rounds a number to IEEE 754's binary16, and BFloat16 to bfloat16.
func Float16(v float64) uint16 { return binary16.bits(v) }

// BFloat16 is Float16 for the other format.
func BFloat16(v float64) uint16 { return bfloat16.bits(v) }

// FromFloat16 is the number that has the bits.
func FromFloat16(v uint16) float64 { return binary16.value(v) }

// FromBFloat16 is the same of the other format.
func FromBFloat16(v uint16) float64 { return bfloat16.value(v) }
