package engine

import (
	"sync/atomic"
	"unsafe"
)

// Words of 32 bits in memory that the program has mapped, too. Preconditions: b is
// aligned.

func load(b []byte) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[0]))) }

func store(b []byte, w uint32) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[0])), w) }
