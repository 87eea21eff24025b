//go:build (!amd64 && !arm64) || purego

package mmio

import (
	"sync/atomic"
	"unsafe"
)

// Hardware reports whether the functions are fit for the memory of a real device.
const Hardware = false

// Copy copies n times 64 bytes from src to dst.
func Copy(dst, src *byte, n uintptr) { copy(unsafe.Slice(dst, n*64), unsafe.Slice(src, n*64)) }

// Post is Copy, and then stores v in the doorbell db.
func Post(dst, src *byte, n uintptr, db *uint32, v uint32) {
	Copy(dst, src, n)
	atomic.StoreUint32(db, v)
}

// Store stores v in the doorbell db.
func Store(db *uint32, v uint32) { atomic.StoreUint32(db, v) }
