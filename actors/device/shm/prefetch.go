package shm

import (
	"sync/atomic"
	"unsafe"
)

// willWrite and willRead are the prefetches for a typed word.
func willWrite(p *atomic.Uint64) { prefetchWrite((*uint64)(unsafe.Pointer(p))) }
func willRead(p *atomic.Uint64)  { prefetchRead((*uint64)(unsafe.Pointer(p))) }
