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

// A region is memory of Alloc: a file of the directory that its owner has mapped
// whole and others map in two parts, the first page to be written to, the data as
// the owner's rights allow.
//
//	0      header   written before anybody knows the key, then constant
//	128    state    running, closed or dead, as a segment's bell
//	256    leases   how many copies are under way
//	page   data     rounded up to pages
//
// Memory of Alloc is a file of the directory, too, named by its key. Whoever is asked
// for an RDMA request maps it at its first use and then copies, once, inside PostSend:
//
//	        owner                             others
//	+--------+-----------------+      first page: read and write
//	| header | data            |      data: read, and write if the owner's
//	| state  |                 |            rights allow it, as the kernel
//	| leases |                 |            enforces (view_linux.go)
//	+--------+-----------------+
//
// A copier counts itself among the leases, looks whether the region is open, copies,
// looks again and leaves (region.go). The owner's Close says closed, removes the
// name and waits until there is no lease; then it gives the memory back and puts
// blank memory at its addresses, where they stay until the device is closed or many
// others of the size have been (ranges_linux.go). A request that sees a region closed
// after its copy ends with StatusBadAddress, since nobody knows what it has copied.
//
//   - A copier that is killed or stopped leaves its lease. Close waits 10 ms for it,
//     then it abandons the pages: what is still read from them is not believed, and
//     what is still written nobody sees. They go with the last mapping.
//   - An owner that is killed leaves the file. Its mapping held the file's lock, so
//     those who look every 100 ms find it when one of its queue pairs has died, and
//     who opens the directory or asks for the region finds it as well. They mark the
//     region dead and remove it. Who has it mapped is not disturbed: until then
//     requests end well, as if the owner had died later.
//   - Mappings of closed regions and of dead owners' are dropped by the next request
//     or the next look at the locks.
//
// Foreign memory, that of another process which knows nothing of us, is a region
// whose file ends after the first page: the header says whose memory it is, and
// process_linux.go how it is reached. Who registered it is its owner in all that is
// said above: holds the lock, closes it, and is its end if killed. Nothing can be put in
// the place of that memory, so Close waits a second for copies before it goes on without.
//
// A request names a queue pair, whose segment must be there and have the Q_Key, as
// for sends; the region must be of the same device. Keys come from crypto/rand. What
// a region's header says is checked against the size of the file when it is mapped,
// and never read again.
//
// A write with immediate puts a note into the target's ring when the data is in its
// place. It takes a posted receive, so with none posted the write ends with RNR, or
// is done again.
const (
	regionMagic   = 0x6e6f69676572_6665 // "efregion"
	regionVersion = 2
	maxRegion     = 1 << 46

	kindMemory  = 0 // the data follows the first page
	kindProcess = 1 // the data is memory of the process that is named
)

// errNoRegion: the file is not a region that one could use.
var errNoRegion = errors.New("shm: not a region")

// regionHeader is what a region says of itself.
type regionHeader struct {
	magic   uint64
	dom     uint64 // of the device that has it
	addr    uint64 // what requests call the first byte: its address at the owner
	size    uint64 // bytes of data
	version uint32
	key     uint32
	access  uint32
	kind    uint32
	process processID // if kindProcess
}

// processID names a process for as long as the host runs: a number may be another's
// when its process has ended, but never one that has started at the same time.
type processID struct {
	pid   uint32
	_     uint32
	start uint64 // clock ticks after the host's
	space uint64 // in which the number counts, an inode
}

// regionControl is what changes while the region lives.
type regionControl struct {
	state  atomic.Uint32
	_      [pairBytes - 4]byte
	leases atomic.Int64
}

// Whoever copies does enter, holds, copy, holds, leave; the owner's Close stores
// closed and then waits until there is no lease. Each is one access, and these are
// totally ordered: either Close sees the lease, or the copier sees that the region
// is closed before it touches the data.

// enter takes a lease, whether the region is open or not.
func (c *regionControl) enter() { c.leases.Add(1) }

// holds tells whether the region is open.
func (c *regionControl) holds() bool { return c.state.Load() == running }

// leave gives the lease back.
func (c *regionControl) leave() { c.leases.Add(-1) }

// pageBytes is what mappings are made of.
var pageBytes = os.Getpagesize()

// fileBytes is the size of the file of a region.
func (h *regionHeader) fileBytes() int {
	if h.kind == kindProcess {
		return pageBytes
	}
	return regionBytes(int(h.size))
}

// regionBytes is fileBytes if so many bytes of data are in the file.
func regionBytes(size int) int { return pageBytes + (size+pageBytes-1)&^(pageBytes-1) }

// check tells whether a file of so many bytes with this header is the region of a
// key. Nothing that passes leads outside the file.
func (h *regionHeader) check(key uint32, file int64) error {
	switch {
	case h.magic != regionMagic || h.version != regionVersion || h.key != key:
		return fmt.Errorf("%w: header", errNoRegion)
	case h.kind > kindProcess || h.kind == kindProcess && (h.process.pid == 0 || h.process.pid > math.MaxInt32):
		return fmt.Errorf("%w: kind", errNoRegion)
	case h.size == 0 || h.size > maxRegion || file != int64(h.fileBytes()):
		return fmt.Errorf("%w: %d bytes in a file of %d", errNoRegion, h.size, file)
	case h.addr+h.size < h.addr:
		return fmt.Errorf("%w: address", errNoRegion)
	}
	return nil
}

// offset is where the n bytes that a request calls addr begin in the data; false
// if they do not lie there.
func (h *regionHeader) offset(addr uint64, n int) (int, bool) {
	off := addr - h.addr
	if addr < h.addr || off > h.size || uint64(n) > h.size-off {
		return 0, false
	}
	return int(off), true
}

// allows tells whether others may do all of a.
func (h *regionHeader) allows(a device.Access) bool { return device.Access(h.access)&a == a }

// regionHeaderOf and regionControlOf are the parts of a mapped first page.
func regionHeaderOf(page []byte) *regionHeader { return (*regionHeader)(unsafe.Pointer(&page[0])) }

func regionControlOf(page []byte) *regionControl {
	return (*regionControl)(unsafe.Pointer(&page[pairBytes]))
}
