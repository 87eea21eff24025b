package efa

import (
	"encoding/binary"
	"reflect"
	"slices"
	"unsafe"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/wire"
)

// Scalar is what atomics know of Go's types. The others have a number in package amo only.
type Scalar interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64 | ~complex64 | ~complex128
}

// Elements is v as an AtomicReq wants it: the same memory, and its type.
func Elements[T Scalar](v []T) ([]byte, amo.Type) {
	var zero T
	p := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero)))
	return p, datatypeOf[T]()
}

// datatypeOf finds the number of a type, named or not.
func datatypeOf[T Scalar]() amo.Type {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Int8:
		return wire.DatatypeInt8
	case reflect.Uint8:
		return wire.DatatypeUint8
	case reflect.Int16:
		return wire.DatatypeInt16
	case reflect.Uint16:
		return wire.DatatypeUint16
	case reflect.Int32:
		return wire.DatatypeInt32
	case reflect.Uint32:
		return wire.DatatypeUint32
	case reflect.Int64:
		return wire.DatatypeInt64
	case reflect.Uint64:
		return wire.DatatypeUint64
	case reflect.Float32:
		return wire.DatatypeFloat
	case reflect.Float64:
		return wire.DatatypeDouble
	case reflect.Complex64:
		return wire.DatatypeFloatComplex
	default: // complex128 is the only one left
		return wire.DatatypeDoubleComplex
	}
}

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// toWire makes of elements as they are in memory what packets carry, which is
// little-endian.
func toWire(p *[]byte, t amo.Type) {
	if bigEndian {
		*p = slices.Clone(*p)
		swapBytes(*p, t)
	}
}

// fetched makes of what an atomic fetched what it is in memory.
func fetched(q *ope.Request) {
	if bigEndian && q.Kind == ope.KindAtomic && q.More != nil {
		swapBytes(q.More.Result, amo.Type(q.Type))
	}
}

// swapBytes changes the byte order of elements; a complex one is two numbers.
func swapBytes(p []byte, t amo.Type) {
	size := t.Size()
	if t == wire.DatatypeFloatComplex || t == wire.DatatypeDoubleComplex || t == wire.DatatypeLongDoubleComplex {
		size /= 2
	}
	for ; len(p) >= size && size > 0; p = p[size:] {
		slices.Reverse(p[:size])
	}
}
