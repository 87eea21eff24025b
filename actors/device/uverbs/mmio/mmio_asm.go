//go:build (amd64 || arm64) && !purego

package mmio

// Hardware reports whether the functions are fit for the memory of a real device.
const Hardware = true

// Copy copies n times 64 bytes from src to dst, which is write-combining memory, after all
// stores before it. Both are aligned to 8 bytes.
//
//go:noescape
func Copy(dst, src *byte, n uintptr)

// Post is Copy, and then stores v in the doorbell db, which the device sees after what was
// copied by this call and those before it.
func Post(dst, src *byte, n uintptr, db *uint32, v uint32) {
	Copy(dst, src, n)
	ring(db, v)
}

// ring stores v in the doorbell db after everything before it, write-combining memory included.
//
//go:noescape
func ring(db *uint32, v uint32)

// Store stores v in the doorbell db, which the device sees after what was stored in
// ordinary memory before.
//
//go:noescape
func Store(db *uint32, v uint32)
