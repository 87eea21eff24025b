package atomics

import (
	"sync"
	"unsafe"

	"github.com/efactor/efactor/wire"
)

const (
	numLocks = 256 // power of two
	lineSize = 64  // bytes of memory that share a lock
)

// stripe is a lock on a cache line of its own.
type stripe struct {
	sync.Mutex
	_ [lineSize - unsafe.Sizeof(sync.Mutex{})]byte
}

// stripes are the locks of all the memory in this process: an element belongs to one
// of them by the line that it begins in. They are held for a few instructions, one
// at a time.
var stripes [numLocks]stripe

// lockOf is the lock of the element that p begins with.
func lockOf(p []byte) *stripe { return &stripes[address(p)/lineSize%numLocks] }

// address returns where p begins. Memory that several shards use does not move.
func address(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }

// run returns how many bytes of p belong to elements that begin in the same line as p
// does.
func run(p []byte, size int) int {
	left := lineSize - int(address(p)%lineSize)
	return min((left+size-1)/size*size, len(p))
}

// maxSize is the size of the largest element, a complex long double.
const maxSize = 32

// eachRun calls update with the offsets of each element of that size, while it holds
// the element's lock.
func eachRun(target []byte, size int, update func(from, to int)) {
	for i := 0; i < len(target); {
		end := i + run(target[i:], size)
		l := lockOf(target[i:])
		l.Lock()
		for ; i < end; i += size {
			update(i, i+size)
		}
		l.Unlock()
	}
}

// locked updates elements of 1, 2, 4 or 8 bytes at any address.
func (f step[U]) locked(a *args) {
	eachRun(a.target, int(unsafe.Sizeof(U(0))), func(from, to int) {
		target := a.target[from:to]
		old := native[U](target)
		operand, compare := little[U](a.operand[from:to]), little[U](a.compare[from:to])
		if v := f(a.op, old, operand, compare); v != old {
			putNative(target, v)
		}
		if a.result != nil {
			putLittle(a.result[from:to], old)
		}
	})
}

// locked updates complex numbers, of twice the size of U.
func (f pairStep[U]) locked(a *args) {
	half := int(unsafe.Sizeof(U(0)))
	eachRun(a.target, 2*half, func(from, to int) {
		target, mid := a.target[from:to], from+half
		old := pair[U]{native[U](target[:half]), native[U](target[half:])}
		operand := pair[U]{little[U](a.operand[from:mid]), little[U](a.operand[mid:to])}
		compare := pair[U]{little[U](a.compare[from:mid]), little[U](a.compare[mid:to])}
		if v := f(a.op, old, operand, compare); v != old {
			putNative(target[:half], v.re)
			putNative(target[half:], v.im)
		}
		if a.result != nil {
			putLittle(a.result[from:mid], old.re)
			putLittle(a.result[mid:to], old.im)
		}
	})
}

// lockedBytes performs ATOMIC_READ and ATOMIC_WRITE on elements without arithmetic.
func (a *args) lockedBytes(size int) {
	eachRun(a.target, size, func(from, to int) {
		var old [maxSize]byte
		n := copy(old[:], a.target[from:to])
		if a.op == wire.OpWrite {
			copy(a.target[from:to], a.operand[from:to])
		}
		if a.result != nil {
			copy(a.result[from:to], old[:n])
		}
	})
}
