package atomics

import (
	"sync"
	"unsafe"
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
