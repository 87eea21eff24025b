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

// layout cuts a buffer into blocks, one after the other, one for each rank.
type layout struct {
	elem   int   // bytes of an element
	q, rem int   // q elements each, and one more for the first rem
	offs   []int // instead: where each block begins and, last, where all end, in elements
	table  []int // the memory of offs
}

// even cuts n elements into p blocks as equal as can be.
func even(n, p, elem int) layout { return layout{elem: elem, q: n / p, rem: n % p} }

// from is where block r begins, in bytes.
func (l *layout) from(r int) int {
	if l.offs != nil {
		return l.offs[r] * l.elem
	}
	return (r*l.q + min(r, l.rem)) * l.elem
}

// block is the memory of block r.
func (l *layout) block(b []byte, r int) []byte { return l.blocks(b, r, r+1) }

// blocks is the memory of the blocks from r up to but without s.
func (l *layout) blocks(b []byte, r, s int) []byte {
	to := l.from(s)
	return b[l.from(r):to:to]
}

// size is the bytes of block r.
func (l *layout) size(r int) int { return l.from(r+1) - l.from(r) }

// largest is the bytes of the largest of p blocks.
func (l *layout) largest(p int) int {
	if l.offs == nil {
		return l.size(0)
	}
	most := 0
	for r := range p {
		most = max(most, l.size(r))
	}
	return most
}

// setCounts makes the blocks as long as counts says, for a buffer of n elements.
func (l *layout) setCounts(counts []int, p, n int) error {
	if len(counts) != p {
		return fmt.Errorf("%w: %d counts for %d ranks", efa.ErrInvalid, len(counts), p)
	}
	l.table = append(l.table[:0], 0)
	at := 0
	for r, k := range counts {
		if k < 0 || k > n-at {
			return fmt.Errorf("%w: counts[%d] is %d, with %d of the buffer's %d elements left", efa.ErrInvalid, r, k, n-at, n)
		}
		at += k
		l.table = append(l.table, at)
	}
	l.offs = l.table
	if at != n {
		return fmt.Errorf("%w: counts are %d elements altogether, the buffer has %d", efa.ErrInvalid, at, n)
	}
	return nil
}
