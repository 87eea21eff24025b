package atomics

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// The steps of these tests are what happens between the two halves of an update.

// TestRetry: a word that somebody changed in between is updated from what it is then,
// and that is the result.
func TestRetry(t *testing.T) {
	call := func(size int) (*args, []byte) {
		p := memory(size)
		return &args{wire.OpSum, p, make([]byte, size), make([]byte, size), make([]byte, size)}, p
	}
	steps := 0
	a, p := call(8)
	a.words64(func(_ wire.AtomicOp, old, _, _ uint64) uint64 {
		if steps++; steps < 4 {
			atomic.AddUint64((*uint64)(unsafe.Pointer(&p[0])), 100)
		}
		return old + 1
	}, false)
	require.Equal(t, 4, steps)
	require.Equal(t, uint64(301), le.Uint64(p))
	require.Equal(t, uint64(300), le.Uint64(a.result))

	steps = 0
	b, p := call(4)
	b.words32(func(_ wire.AtomicOp, old, _, _ uint32) uint32 {
		if steps++; steps < 4 {
			atomic.AddUint32((*uint32)(unsafe.Pointer(&p[0])), 100)
		}
		return old + 1
	}, false)
	require.Equal(t, 4, steps)
	require.Equal(t, uint32(301), le.Uint32(p))
	require.Equal(t, uint32(300), le.Uint32(b.result))
}

// TestLockHeld: an update that is not of an aligned word holds the lock of the line
// that the element begins in; one that is holds none.
func TestLockHeld(t *testing.T) {
	const elems = 20
	check := func(name string, size, shift int, locks bool, update func(a *args, seen func())) {
		p := memory(elems*size + shift)[shift:]
		i := 0
		seen := func() {
			l := lockOf(p[i:])
			free := l.TryLock()
			if free {
				l.Unlock()
			}
			require.Equal(t, locks, !free, "%s: element at %d", name, shift+i)
			i += size
		}
		update(&args{wire.OpWrite, p, make([]byte, len(p)), make([]byte, len(p)), nil}, seen)
		require.Equal(t, elems*size, i)
		for j := 0; j < len(p); j += size {
			l := lockOf(p[j:])
			require.True(t, l.TryLock(), "%s: left behind", name)
			l.Unlock()
		}
	}
	for shift := range 17 {
		check("8 bytes", 8, shift, shift%8 != 0, func(a *args, seen func()) {
			a.words64(func(_ wire.AtomicOp, old, _, _ uint64) uint64 { seen(); return old }, true)
		})
		check("4 bytes", 4, shift, shift%4 != 0, func(a *args, seen func()) {
			a.words32(func(_ wire.AtomicOp, old, _, _ uint32) uint32 { seen(); return old }, true)
		})
		check("2 bytes", 2, shift, true, func(a *args, seen func()) {
			step[uint16](func(_ wire.AtomicOp, old, _, _ uint16) uint16 { seen(); return old }).locked(a)
		})
		check("1 byte", 1, shift, true, func(a *args, seen func()) {
			step[uint8](func(_ wire.AtomicOp, old, _, _ uint8) uint8 { seen(); return old }).locked(a)
		})
		check("pairs", 16, shift, true, func(a *args, seen func()) {
			pairStep[uint64](func(_ wire.AtomicOp, old, _, _ pair[uint64]) pair[uint64] { seen(); return old }).locked(a)
		})
	}
}
