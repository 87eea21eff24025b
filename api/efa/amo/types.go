package amo

import (
	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/wire"
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
