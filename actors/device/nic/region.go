package nic

import (
	"sync"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
)

// Region is memory that a device knows, made by Regions. It implements device.MR.
type Region struct {
	device.MRBase
	table  *Regions
	bytes  []byte
	addr   uint64
	key    uint64
	access device.Access
	remote bool
	size   uint64       // of memory of another process, where bytes is nil
	give   func() error // releases the memory in the end; may be nil
	parent *Region      // of a window: what it lies in

	// A copy holds mu for reading. Close locks it for good, so that it
	// returns when the last copy has ended and no later one begins.
	mu sync.RWMutex
}

var _ device.MR = (*Region)(nil)

// Bytes implements device.MR. It is nil for foreign memory.
func (r *Region) Bytes() []byte { return r.bytes }

// Addr implements device.MR.
func (r *Region) Addr() uint64 { return r.addr }

// LKey implements device.MR.
func (r *Region) LKey() uint32 { return uint32(r.key) }

// RKey implements device.MR.
func (r *Region) RKey() uint64 { return r.key }

// Remote implements device.MR.
func (r *Region) Remote() bool { return r.remote }

// Access returns the rights, LocalWrite included where RemoteWrite implies it.
func (r *Region) Access() device.Access { return r.access }

// Close implements device.MR. It waits for copies in progress; no new one begins.
func (r *Region) Close() error {
	if !r.table.remove(r) {
		return device.ErrClosed
	}
	r.mu.Lock()
	var err error
	if r.give != nil {
		err = r.give()
	}
	r.table.gone()
	return err
}

// hold keeps Close from returning until Release. It never waits: it fails once
// Close has begun.
func (r *Region) hold() bool { return r.mu.TryRLock() }

// Release ends what Regions.Hold or HoldLocal began.
func (r *Region) Release() {
	parent := r.parent
	r.mu.RUnlock()
	if parent != nil {
		parent.mu.RUnlock()
	}
}

// at returns the n bytes at the remote address addr; nil and false if they do not
// lie in the region. Zero bytes lie everywhere up to its end.
func (r *Region) at(addr uint64, n int) ([]byte, bool) {
	off, size := addr-r.addr, uint64(len(r.bytes))
	if r.bytes == nil || addr < r.addr || off > size || n < 0 || uint64(n) > size-off {
		return nil, false
	}
	return r.bytes[off : off+uint64(n) : off+uint64(n)], true
}

// contains reports whether b lies in the region.
func (r *Region) contains(b []byte) bool {
	base, at := address(r.bytes), address(b)
	return r.bytes != nil && at >= base && at-base <= uint64(len(r.bytes)) && uint64(len(b)) <= uint64(len(r.bytes))-(at-base)
}

// lies returns the remote address of b, bytes of the region; false if they lie elsewhere.
// Memory of another process has the addresses that it has there.
func (r *Region) lies(b []byte) (uint64, bool) {
	if r.bytes != nil {
		return r.addr + address(b) - address(r.bytes), r.contains(b)
	}
	off := address(b) - r.addr
	return address(b), address(b) >= r.addr && off <= r.size && uint64(len(b)) <= r.size-off
}

// allows reports whether the region may be used for all of a.
func (r *Region) allows(a device.Access) bool {
	const others = device.RemoteRead | device.RemoteWrite
	return r.access&a == a && (r.remote || a&others == 0)
}

// address is where b begins in this process.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
