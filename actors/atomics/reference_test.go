package atomics

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"github.com/efactor/efactor/wire"
)

var le = binary.LittleEndian

// reference says what becomes of an element, from the manual (fi_atomic) and with
// numbers of any size. loose: only that it is a NaN matters, not which.
func reference(op wire.AtomicOp, t wire.Datatype, target, operand, compare []byte) (want []byte, loose bool) {
	switch {
	case op == wire.OpRead:
		return target, false
	case op == wire.OpWrite:
		return operand, false
	case integers(t):
		return refInteger(op, t, target, operand, compare), false
	case t == wire.DatatypeFloat16, t == wire.DatatypeBFloat16:
		return refHalf(op, t, target, operand, compare)
	case t <= wire.DatatypeDouble:
		return refReal(op, target, operand, compare)
	default:
		return refComplex(op, target, operand, compare)
	}
}

func integers(t wire.Datatype) bool {
	return t <= wire.DatatypeUint64 || t == wire.DatatypeInt128 || t == wire.DatatypeUint128
}

// toInt reads an element of the integer types, of which every second is signed.
func toInt(t wire.Datatype, p []byte) *big.Int {
	v := new(big.Int)
	for i := len(p) - 1; i >= 0; i-- {
		v.Lsh(v, 8).Or(v, big.NewInt(int64(p[i])))
	}
	if t%2 == 0 && p[len(p)-1] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(p))))
	}
	return v
}

func refInteger(op wire.AtomicOp, t wire.Datatype, target, operand, compare []byte) []byte {
	a, b, c := toInt(t, target), toInt(t, operand), toInt(t, compare)
	v := new(big.Int)
	switch op {
	case wire.OpSum:
		v.Add(a, b)
	case wire.OpDiff:
		v.Sub(a, b)
	case wire.OpProd:
		v.Mul(a, b)
	case wire.OpBOr:
		v.Or(a, b)
	case wire.OpBAnd:
		v.And(a, b)
	case wire.OpBXor:
		v.Xor(a, b)
	case wire.OpMSwap:
		v.Or(new(big.Int).And(b, c), new(big.Int).AndNot(a, c))
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		v.SetInt64(truth(op, a.Sign() != 0, b.Sign() != 0))
	default:
		if takes(op, a.Cmp(b), c.Cmp(a), true) {
			return operand
		}
		return target
	}
	out := make([]byte, len(target))
	v.And(v, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*len(out))), big.NewInt(1)))
	for i, x := range v.FillBytes(make([]byte, len(out))) {
		out[len(out)-1-i] = x
	}
	return out
}

func truth(op wire.AtomicOp, a, b bool) int64 {
	table := map[wire.AtomicOp][4]int64{ // neither, operand, target, both
		wire.OpLOr:  {0, 1, 1, 1},
		wire.OpLAnd: {0, 0, 0, 1},
		wire.OpLXor: {0, 1, 1, 0},
	}
	i := 0
	if a {
		i += 2
	}
	if b {
		i++
	}
	return table[op][i]
}

// takes reports whether MIN, MAX or a swap takes the operand: target is the target
// against the operand, compare the comparand against the target, as Cmp has it.
// ordered: neither is NaN.
func takes(op wire.AtomicOp, target, compare int, ordered bool) bool {
	if !ordered {
		return op == wire.OpCSwapNE
	}
	switch op {
	case wire.OpMin:
		return target > 0
	case wire.OpMax:
		return target < 0
	case wire.OpCSwap:
		return compare == 0
	case wire.OpCSwapNE:
		return compare != 0
	case wire.OpCSwapLE:
		return compare <= 0
	case wire.OpCSwapLT:
		return compare < 0
	case wire.OpCSwapGE:
		return compare >= 0
	case wire.OpCSwapGT:
		return compare > 0
	default:
		panic(fmt.Sprint("no reference for ", op))
	}
}

func toFloat(p []byte) float64 {
	if len(p) == 4 {
		return float64(math.Float32frombits(le.Uint32(p)))
	}
	return math.Float64frombits(le.Uint64(p))
}

func appendFloat(b []byte, v float64, size int) []byte {
	if size == 4 {
		return le.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return le.AppendUint64(b, math.Float64bits(v))
}

// exact computes with all digits and rounds once, to the float of that size.
func exact(op wire.AtomicOp, a, b float64, size int) float64 {
	special := func(v float64) bool { return v == 0 || math.IsNaN(v) || math.IsInf(v, 0) }
	var v float64
	if special(a) || special(b) {
		if v = a * b; op == wire.OpSum {
			v = a + b
		}
	} else {
		x, y := new(big.Float).SetPrec(4400).SetFloat64(a), new(big.Float).SetFloat64(b)
		if op == wire.OpSum {
			x.Add(x, y)
		} else {
			x.Mul(x, y)
		}
		if size == 4 {
			f, _ := x.Float32()
			return float64(f)
		}
		v, _ = x.Float64()
	}
	if size == 4 {
		return float64(float32(v))
	}
	return v
}

func compareFloats(a, b float64) (order int, ordered bool) {
	if math.IsNaN(a) || math.IsNaN(b) {
		return 0, false
	}
	return big.NewFloat(a).Cmp(big.NewFloat(b)), true
}

func refReal(op wire.AtomicOp, target, operand, compare []byte) (want []byte, loose bool) {
	a, b, c := toFloat(target), toFloat(operand), toFloat(compare)
	switch op {
	case wire.OpDiff:
		v := exact(wire.OpSum, a, -b, len(target))
		return appendFloat(nil, v, len(target)), math.IsNaN(v)
	case wire.OpSum, wire.OpProd:
		v := exact(op, a, b, len(target))
		return appendFloat(nil, v, len(target)), math.IsNaN(v)
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		return appendFloat(nil, float64(truth(op, a != 0, b != 0)), len(target)), false
	default:
	}
	order, ordered := compareFloats(a, b)
	swap, swapOrdered := compareFloats(c, a)
	if op != wire.OpMin && op != wire.OpMax {
		ordered = swapOrdered
	}
	if takes(op, order, swap, ordered) {
		return operand, false
	}
	return target, false
}

func refComplex(op wire.AtomicOp, target, operand, compare []byte) (want []byte, loose bool) {
	n := len(target) / 2
	a := [2]float64{toFloat(target[:n]), toFloat(target[n:])}
	b := [2]float64{toFloat(operand[:n]), toFloat(operand[n:])}
	c := [2]float64{toFloat(compare[:n]), toFloat(compare[n:])}
	var v [2]float64
	sum, mul := wire.OpSum, wire.OpProd
	switch op {
	case wire.OpSum:
		v = [2]float64{exact(sum, a[0], b[0], n), exact(sum, a[1], b[1], n)}
	case wire.OpDiff:
		v = [2]float64{exact(sum, a[0], -b[0], n), exact(sum, a[1], -b[1], n)}
	case wire.OpProd:
		v[0] = exact(sum, exact(mul, a[0], b[0], n), -exact(mul, a[1], b[1], n), n)
		v[1] = exact(sum, exact(mul, a[0], b[1], n), exact(mul, a[1], b[0], n), n)
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		v[0] = float64(truth(op, a != [2]float64{}, b != [2]float64{}))
	case wire.OpCSwap, wire.OpCSwapNE:
		if (a == c) == (op == wire.OpCSwap) {
			return operand, false
		}
		return target, false
	default:
		panic(fmt.Sprint("no reference for ", op))
	}
	want = appendFloat(appendFloat(nil, v[0], n), v[1], n)
	return want, math.IsNaN(v[0]) || math.IsNaN(v[1])
}
