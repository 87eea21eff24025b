package sys

import (
	"sync/atomic"
	"unsafe"
)

// StoreRelease stores v at p after everything before it: a goroutine that loads v sees all
// that was written before. Unlike p.Store it may come after loads that follow it.
func StoreRelease(p *atomic.Uint64, v uint64) { storeRelease((*uint64)(unsafe.Pointer(p)), v) }
