package shm

import (
	"sync/atomic"
	"unsafe"
)

// release is storeRelease for a typed word.
func release(p *atomic.Uint64, v uint64) { storeRelease((*uint64)(unsafe.Pointer(p)), v) }
