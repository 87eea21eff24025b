package shm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
)

// A region is memory of Alloc that its owner has mapped whole and others map twice: the
// first page, writable, and all of it, as the owner's rights allow.
//
//	0      header   written before the key is known, then constant
//	128    state    running, closed or dead, as in control.state
//	256    leases   number of copies in progress
//	page   data     rounded up to pages
//
// It has a file in the directory, too, named by its key, with the header (sealed_linux.go
// says where the memory is) and the lock. A process that is
// to perform an RDMA request maps it at its first use and then copies, once, inside
// PostSend:
//
//	        owner                             others
//	+--------+-----------------+      first page: read and write
//	| header | data            |      all: read, and write if the owner's
//	| state  |                 |            rights allow it, as the kernel
//	| leases |                 |            enforces (mapping_linux.go)
//	+--------+-----------------+
//
// A copier counts itself among the leases, checks that the region is open, copies,
// checks again and leaves (region.go). The owner's Close says closed, removes the
// name and waits until there is no lease; then it releases the memory and puts blank
// memory at its addresses, where they stay until the device is closed or many others
// of the size have been used (region_linux.go). A request that finds the region
// closed after its copy ends with StatusBadAddress, since what it has copied is
// undefined.
//
//   - A copier that is killed or stopped leaves its lease. Close waits 10 ms for it,
//     then it abandons the pages: what is still read from them is discarded, and
//     what is still written is never read. They go with the last mapping.
//   - An owner that is killed leaves the file. A mapping held the file's lock, so
//     the processes that hear of the death of one of its queue pairs find it, and a
//     process that opens the directory or looks for the region finds it as well. They remove it. Processes that have the memory mapped are not
//     disturbed: until then requests end well, as if the owner had died later.
//   - Mappings of closed regions and of dead owners' regions are dropped by the next
//     request for them, when another region is mapped, or after the next death. Until
//     then they take addresses, and no memory but the first page: Close has given the rest back.
//
// Foreign memory, that of a process which does not use this package, is a region whose
// file ends after the first page: the header names the process, and process_linux.go says
// how its memory is reached. The process that registered it is its owner in all of the
// above: it holds the lock, closes it, and if killed ends it. That memory cannot be
// replaced by blank memory, so Close waits a second for copies before it goes on without.
//
// A request names a queue pair, whose segment must be there and have the Q_Key, as
// for sends; the region must be of the same device. Keys come from crypto/rand. The
// fields of a region's header are checked against the size of the file when it is
// mapped, and never read again.
//
// A write with immediate puts a note into the target's ring when the data is in
// place. It takes a posted receive, so with none posted the write ends with RNR, or
// is repeated.
const (
	regionMagic   = 0x6e6f69676572_6665 // "efregion"
	regionVersion = 2
	maxRegion     = 1 << 46

	kindMemory  = 0 // the data follows the first page
	kindProcess = 1 // the data is memory of the process that is named
)

// errNoRegion: the file is not a region that one could use.
var errNoRegion = errors.New("shm: not a region")

// regionHeader describes the region.
type regionHeader struct {
	magic   uint64
	dom     uint64 // of the device it belongs to
	addr    uint64 // remote address of the first byte: its address at the owner
	size    uint64 // bytes of data
	version uint32
	key     uint32
	access  uint32
	kind    uint32
	process processID // if kindProcess
	sealed  sealedAt
}

// processID names a process for as long as the host runs: a number may be reused
// when its process has ended, but never with the same start time.
type processID struct {
	pid   uint32
	_     uint32
	start uint64 // clock ticks after the host's
	space uint64 // the namespace of the number, an inode
}

// sealedAt says where sealed memory is: a descriptor of a process.
type sealedAt struct {
	process processID
	fd      uint32 // and 1; 0: there is none, the memory is in the file
	_       uint32
}

// regionControl holds the words that change while the region lives.
type regionControl struct {
	state  atomic.Uint32
	_      [pairBytes - 4]byte
	leases atomic.Int64
}

// A copier does addLease, open, copy, open, dropLease; the owner's Close stores closed
// and then waits until there is no lease. Each is one access, and these are totally
// ordered: either Close sees the lease, or the copier sees that the region is
// closed before it touches the data.

// addLease takes a lease, whether the region is open or not.
func (c *regionControl) addLease() { c.leases.Add(1) }

// open reports whether the region is open.
func (c *regionControl) open() bool { return c.state.Load() == running }

// dropLease ends it.
func (c *regionControl) dropLease() { c.leases.Add(-1) }

// pageBytes is the unit of mappings.
var pageBytes = os.Getpagesize()

// fileBytes is the size of a region's memory, which is in its file unless it is sealed.
func (h *regionHeader) fileBytes() int {
	if h.kind == kindProcess {
		return pageBytes
	}
	return regionBytes(int(h.size))
}

// regionBytes is fileBytes for a file with that many bytes of data.
func regionBytes(size int) int { return pageBytes + (size+pageBytes-1)&^(pageBytes-1) }

// check returns an error unless a file of that many bytes with this header is the
// region of a key. A header that passes describes nothing outside the file.
func (h *regionHeader) check(key uint64, file int64) error {
	switch {
	case h.magic != regionMagic || h.version != regionVersion || uint64(h.key) != key:
		return fmt.Errorf("%w: header", errNoRegion)
	case h.kind > kindProcess || h.kind == kindProcess && (h.process.pid == 0 || h.process.pid > math.MaxInt32):
		return fmt.Errorf("%w: kind", errNoRegion)
	case h.size == 0 || h.size > maxRegion || h.sealed.fd == 0 && file != int64(h.fileBytes()):
		return fmt.Errorf("%w: %d bytes in a file of %d", errNoRegion, h.size, file)
	case h.addr+h.size < h.addr:
		return fmt.Errorf("%w: address", errNoRegion)
	}
	return nil
}

// offset is where the n bytes at the remote address addr begin in the data; false
// if they do not lie there.
func (h *regionHeader) offset(addr uint64, n int) (int, bool) {
	off := addr - h.addr
	if addr < h.addr || off > h.size || uint64(n) > h.size-off {
		return 0, false
	}
	return int(off), true
}

// allows reports whether others have all rights in a.
func (h *regionHeader) allows(a device.Access) bool { return device.Access(h.access)&a == a }

// regionHeaderOf and regionControlOf are the parts of a mapped first page.
func regionHeaderOf(page []byte) *regionHeader { return (*regionHeader)(unsafe.Pointer(&page[0])) }

func regionControlOf(page []byte) *regionControl {
	return (*regionControl)(unsafe.Pointer(&page[pairBytes]))
}
