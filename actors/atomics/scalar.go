package atomics

import (
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
	t, o, c := T(old), T(operand), T(compare)
	var swap bool
	switch op {
	case wire.OpMin:
		swap = t > o
	case wire.OpMax:
		swap = t < o
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
	case wire.OpWrite:
		return operand
	default:
		swap = swaps(op, c, t)
	}
	if swap {
		return operand
	}
	return old
}

// floating is the step of the floating-point numbers: U is the unsigned integer of F's
// size.
func floating[F float, U unsigned](op wire.AtomicOp, old, operand, compare U) U {
	t, o, c := as[F](old), as[F](operand), as[F](compare)
	var swap bool
	switch op {
	case wire.OpMin:
		swap = t > o
	case wire.OpMax:
		swap = t < o
	case wire.OpSum:
		return as[U](t + o)
	case wire.OpDiff:
		return as[U](t - o)
	case wire.OpProd:
		return as[U](t * o)
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		return as[U](F(bit(logic(op, t != 0, o != 0))))
	case wire.OpWrite:
		return operand
	default:
		swap = swaps(op, c, t)
	}
	if swap {
		return operand
	}
	return old
}

// swaps evaluates the condition of the compare-and-swaps; it is false for all other
// operations.
func swaps[T signed | unsigned | float](op wire.AtomicOp, compare, target T) bool {
	switch op {
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
