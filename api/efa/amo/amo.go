// Package amo has the words for atomic operations on a peer's memory, for package efa:
// what they do ([Op]), on elements of what type ([Type]), and what they bring along and
// bring back ([Form]). The numbers are libfabric's.
package amo

import (
	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/wire"
)

// Op is an operation on elements of a peer's memory (enum fi_op, §3.3). Each
// element is updated at once, an array of them is not.
type Op = wire.AtomicOp

// The operations, with t for what is in memory, o for the operand and c for the
// comparand. efa.Cell.Update and Fetch take those of the first block, but
// only Fetch takes Read; Compare takes the others. Minimum, maximum and the
// ordered comparisons are for all but complex numbers, those of bits and MaskedSwap for
// integers. What holds of numbers that are none is said at the types.
const (
	Min   = wire.OpMin   // t = min(t, o)
	Max   = wire.OpMax   // t = max(t, o)
	Sum   = wire.OpSum   // t += o; integers wrap around
	Prod  = wire.OpProd  // t *= o
	LOr   = wire.OpLOr   // t = t || o, as 1 or 0
	LAnd  = wire.OpLAnd  // t = t && o
	BOr   = wire.OpBOr   // t |= o
	BAnd  = wire.OpBAnd  // t &= o
	LXor  = wire.OpLXor  // t = t != o, of what is true
	BXor  = wire.OpBXor  // t ^= o
	Read  = wire.OpRead  // nothing but to fetch; the operand may be nil
	Write = wire.OpWrite // t = o
	Diff  = wire.OpDiff  // t -= o; integers wrap around; where Sum is

	CompareSwap = wire.OpCSwap   // if c == t: t = o
	SwapNE      = wire.OpCSwapNE // if c != t: t = o
	SwapLE      = wire.OpCSwapLE // if c <= t: t = o
	SwapLT      = wire.OpCSwapLT // if c < t: t = o
	SwapGE      = wire.OpCSwapGE // if c >= t: t = o
	SwapGT      = wire.OpCSwapGT // if c > t: t = o
	MaskedSwap  = wire.OpMSwap   // t = o&c | t&^c
)

// Type is the type of an atomic's elements (enum fi_datatype).
type Type = wire.Datatype

// Form is what an atomic brings along and what it brings back.
type Form = atomics.Form

// The forms.
const (
	Update  = atomics.Write   // an operand, and nothing comes back (fi_atomic)
	Fetch   = atomics.Fetch   // an operand, and what was there before comes back (fi_fetch_atomic)
	Compare = atomics.Compare // a comparand too (fi_compare_atomic)
)

// The types. Those that Go has are what efa.Elements gives, so that only the others need to
// be named, in an efa.AtomicReq.
//
// A floating-point number compares by its value: a NaN compares with nothing, so Min, Max and the
// swaps leave what is there if either is a NaN, and SwapNE stores; -0 equals 0. LOr, LAnd and
// LXor take a NaN for true. What is stored without arithmetic keeps its bits, a NaN's too. A
// sum, difference or product is rounded once, to the nearest number and of two as near to the
// even one, and is a NaN if the operation has no result or took one; which NaN is not defined.
const (
	Int8       = wire.DatatypeInt8
	Uint8      = wire.DatatypeUint8
	Int16      = wire.DatatypeInt16
	Uint16     = wire.DatatypeUint16
	Int32      = wire.DatatypeInt32
	Uint32     = wire.DatatypeUint32
	Int64      = wire.DatatypeInt64
	Uint64     = wire.DatatypeUint64
	Float32    = wire.DatatypeFloat
	Float64    = wire.DatatypeDouble
	Complex64  = wire.DatatypeFloatComplex
	Complex128 = wire.DatatypeDoubleComplex
	LongDouble = wire.DatatypeLongDouble // 16 bytes, for Read and Write only

	// Integers of 128 bits in the byte order of the host, and floating-point numbers of 16, see [Half]. No
	// libfabric's EFA provider performs operations on them, nor Diff, so the target must be
	// an efactor.
	Int128   = wire.DatatypeInt128
	Uint128  = wire.DatatypeUint128
	Float16  = wire.DatatypeFloat16  // IEEE 754's binary16
	BFloat16 = wire.DatatypeBFloat16 // the upper half of a float32
)

// Half is an element of type Float16 or BFloat16 as it is in memory.
type Half uint16

// ToFloat16 rounds a number to the nearest Float16, of two as near to the even one.
func ToFloat16(v float64) Half { return Half(atomics.Float16(v)) }

// ToBFloat16 is ToFloat16 for BFloat16.
func ToBFloat16(v float64) Half { return Half(atomics.BFloat16(v)) }

// Float16 is the number that h is as a Float16.
func (h Half) Float16() float64 { return atomics.FromFloat16(uint16(h)) }

// BFloat16 is the number that h is as a BFloat16.
func (h Half) BFloat16() float64 { return atomics.FromBFloat16(uint16(h)) }
