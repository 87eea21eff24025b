package atomics

import (
	"unsafe"

	"github.com/efactor/efactor/wire"
)

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
func locked[U unsigned](a *args, f step[U]) {
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

// lockedPairs updates complex numbers, of twice the size of U.
func lockedPairs[U unsigned](a *args, f func(op wire.AtomicOp, old, operand, compare pair[U]) pair[U]) {
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
