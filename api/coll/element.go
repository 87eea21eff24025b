package coll

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/efactor/efactor/api/efa"
)

// bytesOf is the memory of a slice.
func bytesOf[T any](v []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero)))
}

// elements is the reverse of bytesOf, for memory that is aligned for T.
func elements[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// sizeOf is the bytes of an element of type T, which must mean the same in
// another process: nothing in it may point.
func sizeOf[T any]() (int, error) {
	t := reflect.TypeFor[T]()
	if k := t.Kind(); k >= reflect.Bool && k <= reflect.Complex128 {
		return int(t.Size()), nil
	}
	if ok, known := fixed.Load(t); known {
		if ok.(bool) {
			return int(t.Size()), nil
		}
	} else if isFixed(t) && t.Size() > 0 {
		fixed.Store(t, true)
		return int(t.Size()), nil
	}
	fixed.Store(t, false)
	return 0, fmt.Errorf("%w: elements of type %v cannot be sent: they have pointers in them, or no size", efa.ErrInvalid, t)
}

// fixed remembers for types that are no numbers whether they can be sent.
var fixed sync.Map // reflect.Type to bool

func isFixed(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return isFixed(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !isFixed(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128
	}
}

// same reports whether a and b are the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || unsafe.SliceData(a) == unsafe.SliceData(b))
}

// overlap reports whether a and b have memory in common.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	from, to := addressOf(a), addressOf(b)
	return from < to+uintptr(len(b)) && to < from+uintptr(len(a))
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// move copies src to dst unless they are the same memory.
func move(dst, src []byte) {
	if !same(dst, src) {
		copy(dst, src)
	}
}
