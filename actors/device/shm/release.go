package shm

import (
	"sync/atomic"
	"unsafe"
)

// release is storeRelease for a typed word.
func release(p *atomic.Uint64, v uint64) { storeRelease((*uint64)(unsafe.Pointer(p)), v) }

// willWrite and willRead are the prefetches for a typed word.
func willWrite(p *atomic.Uint64) { prefetchWrite((*uint64)(unsafe.Pointer(p))) }
func willRead(p *atomic.Uint64)  { prefetchRead((*uint64)(unsafe.Pointer(p))) }
