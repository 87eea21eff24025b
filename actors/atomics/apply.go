package atomics

import "github.com/efactor/efactor/wire"

// args is a checked call: each of operand, compare and result is nil or as long as
// target at least, and those that a step reads are not nil.
type args struct {
	op                               wire.AtomicOp
	target, operand, compare, result []byte
}

// Apply performs op on every element of target, of type t. It takes the elements
// of operand and, in the form Compare, of compare in order; the old values of target
// go to result, unless that is nil. ATOMIC_READ needs no operand.
//
// The target is memory in the host's byte order. The others are little-endian, as
// packets are, at least as long as target and private to the caller; result may
// begin where operand or compare begins.
//
// It returns ErrNotSupported and ErrLength, unwrapped; nothing was touched then.
func Apply(op wire.AtomicOp, t wire.Datatype, f Form, target, operand, compare, result []byte) error {
	if !Valid(op, t, f) {
		return ErrNotSupported
	}
	n := len(target)
	if n%t.Size() != 0 || result != nil && len(result) < n {
		return ErrLength
	}
	if op == wire.OpRead {
		if result == nil {
			return nil
		}
		operand = result // what a step is given and doesn't look at
	}
	if len(operand) < n {
		return ErrLength
	}
	if f != Compare {
		compare = operand // likewise
	}
	if len(compare) < n {
		return ErrLength
	}
	(&args{op, target, operand, compare, result}).run(t)
	return nil
}

// run chooses the arithmetic by the type, and how to update by its size.
func (a *args) run(t wire.Datatype) {
	switch t {
	case wire.DatatypeInt8:
		step[uint8](integer[int8, uint8]).locked(a)
	case wire.DatatypeUint8:
		step[uint8](integer[uint8, uint8]).locked(a)
	case wire.DatatypeInt16:
		step[uint16](integer[int16, uint16]).locked(a)
	case wire.DatatypeUint16:
		step[uint16](integer[uint16, uint16]).locked(a)
	case wire.DatatypeInt32:
		a.words32(integer[int32, uint32], true)
	case wire.DatatypeUint32:
		a.words32(integer[uint32, uint32], true)
	case wire.DatatypeInt64:
		a.words64(integer[int64, uint64], true)
	case wire.DatatypeUint64:
		a.words64(integer[uint64, uint64], true)
	case wire.DatatypeFloat:
		a.words32(floating[float32, uint32], false)
	case wire.DatatypeDouble:
		a.words64(floating[float64, uint64], false)
	case wire.DatatypeFloatComplex:
		if !bigEndian && aligned(a.target, 8) {
			a.words64(complexWord, false)
		} else {
			pairStep[uint32](complexPair[float32, uint32]).locked(a)
		}
	case wire.DatatypeDoubleComplex:
		pairStep[uint64](complexPair[float64, uint64]).locked(a)
	case wire.DatatypeInt128, wire.DatatypeUint128:
		a.lockedWide(t == wire.DatatypeInt128)
	case wire.DatatypeFloat16:
		step[uint16](binary16.step).locked(a)
	case wire.DatatypeBFloat16:
		step[uint16](bfloat16.step).locked(a)
	default: // of Valid's only the long doubles are left
		a.lockedBytes(t.Size())
	}
}
