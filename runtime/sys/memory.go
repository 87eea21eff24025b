package sys

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// CopyOut is copy, for memory that another CPU has read and will read next, such as a slot of a
// ring in shared memory. Where it pays it writes whole cache lines without fetching them first:
// between cores with caches of their own that takes half of the time. The stores come before
// each store that follows the call.
func CopyOut(dst, src []byte) int {
	if n := min(len(dst), len(src)); n >= farMin {
		return copyFar(dst[:n], src[:n])
	}
	return copy(dst, src)
}

// StoreRelease stores v at p after everything before it: a goroutine that loads v sees all
// that was written before. Unlike p.Store it may come after loads that follow it.
func StoreRelease(p *atomic.Uint64, v uint64) { storeRelease((*uint64)(unsafe.Pointer(p)), v) }

// InGoHeap reports whether p lies in the heap of the Go runtime, which gives a place to
// something else only when nothing refers to what was there. All other memory may be taken
// away and mapped anew while a slice of it exists. It is false for a runtime that does not
// tell.
func InGoHeap(p []byte) bool { return len(p) > 0 && tells() && pinned(unsafe.SliceData(p)) }

// pinner is what a runtime.Pinner has of what it pinned, at its start. A pointer that is not
// to the heap it does not note.
type pinner struct{ refs []unsafe.Pointer }

func pinned(b *byte) bool {
	var p runtime.Pinner
	p.Pin(b)
	defer p.Unpin()
	in := *(**pinner)(unsafe.Pointer(&p))
	return in != nil && len(in.refs) == 1 && in.refs[0] == unsafe.Pointer(b)
}

var notHeap [64]byte

// tells reports whether the runtime's Pinner is as pinned expects it. The size is looked
// at first, so that nothing behind its end is read.
var tells = sync.OnceValue(func() bool {
	var p runtime.Pinner
	if unsafe.Sizeof(p) != unsafe.Sizeof(uintptr(0)) {
		return false
	}
	heap := make([]byte, 1<<16)
	return pinned(&heap[100]) && !pinned(&notHeap[0])
})
