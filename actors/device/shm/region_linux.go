package shm

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// leaseWait bounds how long a region's Close waits for copies in progress. One
// takes microseconds, unless its process was stopped or killed in the middle.
const leaseWait = 10 * time.Millisecond

// keyTries is how many keys are drawn to find one that is free in the directory. A
// second one is needed once in 2^32 times for each region there is.
const keyTries = 16

// ownRegion is a region at its owner.
type ownRegion struct {
	dev    *attachment
	key    uint64
	whole  []byte        // the address range
	mapped []byte        // what is in it: a page of the file, for its lock, then the region; nil until it is there
	wait   time.Duration // for copies, at the end
	sealed int           // the memory's descriptor; -1: it is in the file
}

// cut reports whether a fault is in the region.
func (o *ownRegion) cut(ft fault) bool { return ft.in(o.mapped) }

// region is the mapped region's first page and data.
func (o *ownRegion) region() []byte { return o.mapped[pageBytes:] }

// Register implements device.Device. The memory lies in this process alone, so RDMA
// of others does not reach it and ends with StatusBadAddress.
func (a *attachment) Register(mem []byte, access device.Access) (device.MR, error) {
	r, err := a.regions.Add(nic.Memory{Bytes: mem, Access: access, Local: true})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Alloc implements device.Device. The memory is a file of the directory until the
// region is closed. Its size is rounded up to pages, and one more.
func (a *attachment) Alloc(n int, access device.Access) (device.MR, error) {
	if n <= 0 {
		return nil, fmt.Errorf("%w: region of %d bytes", device.ErrNotSupported, n)
	}
	if uint64(n) > maxRegion {
		return nil, fmt.Errorf("%w: region of %d bytes", device.ErrNoMemory, n)
	}
	return a.newRegion(regionBytes(n), func(whole []byte) (nic.Memory, regionHeader) {
		return nic.Memory{Bytes: whole[pageBytes : pageBytes+n : pageBytes+n], Access: access},
			regionHeader{size: uint64(n)}
	})
}

// newRegion makes a region with a file of that many bytes. of describes it, when
// its mapping's address is known.
func (a *attachment) newRegion(file int, of func([]byte) (nic.Memory, regionHeader)) (device.MR, error) {
	for range keyTries {
		r, err := a.newRegionOnce(file, of)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, errSwept) && !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: no free key in %s", device.ErrNoMemory, a.cfg.Dir)
}

// newRegionOnce reserves addresses; with the memory there is a key, which names the
// file.
func (a *attachment) newRegionOnce(file int, of func([]byte) (nic.Memory, regionHeader)) (*nic.Region, error) {
	whole, err := a.ranges.get(pageBytes + file)
	if err != nil {
		return nil, err
	}
	m, h := of(whole[pageBytes:])
	o := &ownRegion{dev: a, whole: whole, wait: a.leaseWait, sealed: -1}
	if h.kind == kindProcess {
		o.wait = a.foreignWait
	}
	m.Release = o.close
	r, err := a.regions.Add(m)
	if err != nil {
		a.ranges.put(whole)
		return nil, err
	}
	o.key = r.RKey()
	h.magic, h.version, h.dom = regionMagic, regionVersion, a.directory.dom
	h.key, h.addr, h.access = uint32(o.key), r.Addr(), uint32(r.Access())
	if err = o.create(h); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// create makes the file and the memory, and maps them. The lock is taken before anything
// else and belongs to the open file, which the mapping of a page keeps open.
func (o *ownRegion) create(h regionHeader) (err error) {
	f, name := o.dev.directory, regionName(o.key)
	fd, err := unix.Openat(f.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("shm: create %s: %w", name, err)
	}
	defer unix.Close(fd)
	if err := lockNew(fd); err != nil {
		if !errors.Is(err, errSwept) {
			_ = unix.Unlinkat(f.fd, name, 0)
		}
		return err
	}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(f.fd, name, 0)
		}
	}()
	size := h.fileBytes()
	mem, inFile := fd, size
	if o.dev.maySeal() {
		if o.sealed, h.sealed, err = newSealed(name, size); errors.Is(err, device.ErrNoMemory) {
			return err
		}
	}
	if o.sealed >= 0 {
		o.dev.sealedRegions.Add(1)
		mem, inFile = o.sealed, int(unsafe.Sizeof(h))
	}
	if err := reserve(fd, inFile); err != nil {
		return fmt.Errorf("%w in %s", err, f.dir)
	}
	if err := writeHeader(fd, &h); err != nil {
		return err
	}
	if err := mapAt(o.whole[:pageBytes], fd, unix.PROT_NONE); err != nil {
		return err
	}
	o.mapped = o.whole[:pageBytes+size]
	if err := mapAt(o.region(), mem, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	if o.sealed >= 0 { // else it is there, in the file
		*regionHeaderOf(o.region()) = h
	}
	return nil
}

// mapAt maps a file to addresses of ours.
func mapAt(b []byte, fd, prot int) error {
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(&b[0]), uintptr(len(b)), prot,
		unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("%w: map: %w", device.ErrNoMemory, err)
	}
	return nil
}

// maySeal reports whether one more region may be sealed memory, which takes a descriptor.
func (a *attachment) maySeal() bool {
	return !a.cfg.Files && a.sealedRegions.Load() < maxSealed()
}

// maxSealed is a quarter of the descriptors that this process may have.
var maxSealed = sync.OnceValue(func() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int64(min(l.Cur/4, maxRegions))
})

// close ends the region: copiers in progress learn of it, later ones find nothing.
// Its addresses stay valid, without its contents.
func (o *ownRegion) close() error {
	if o.sealed >= 0 {
		defer func() {
			_ = unix.Close(o.sealed)
			o.dev.sealedRegions.Add(-1)
		}()
	}
	if o.mapped != nil {
		c := regionControlOf(o.region())
		idle := false
		cut := !guarded(func() { c.state.Store(closed) }, o.cut)
		_ = unix.Unlinkat(o.dev.directory.fd, regionName(o.key), 0)
		if !cut {
			cut = !guarded(func() { idle = o.awaitLeases(c) }, o.cut)
		}
		if !cut && idle && len(o.region()) > pageBytes {
			// Others have the pages mapped until they find the region closed;
			// the memory need not wait for that.
			_ = unix.Madvise(o.region()[pageBytes:], unix.MADV_REMOVE)
		}
		// Otherwise the pages are left to the late copiers: what they read they
		// discard, and what they write is never read.
		if err := blank(o.mapped); err != nil { // drops the lock, too
			return err
		}
	}
	o.dev.ranges.put(o.whole)
	return nil
}

// awaitLeases waits until no copy is in progress; false if that took too long.
func (o *ownRegion) awaitLeases(c *regionControl) bool {
	if c.leases.Load() == 0 {
		return true
	}
	until := clock.System.Now().Add(o.wait)
	for c.leases.Load() != 0 {
		if clock.System.Now() >= until {
			o.dev.abandoned.Add(1)
			return false
		}
		runtime.Gosched()
		nap := unix.NsecToTimespec(int64(20 * time.Microsecond))
		_ = unix.Nanosleep(&nap, nil) // the copier may need this processor
	}
	return true
}

// reuseAfter is how many later ranges of its class must have been returned before a
// range is used again.
const reuseAfter = 16

// ranges hands out address ranges in which regions are mapped. A returned range
// keeps blank memory at its addresses and rests, so that late readers of a closed
// region read zeroes, and not another region's data. The lengths are powers of two:
// however many regions come and go, there are no more ranges than were in use at
// one time, and those that rest.
type ranges struct {
	mu       sync.Mutex
	closed   bool
	all      [][]byte
	returned [bits.UintSize][][]byte // by the logarithm of the length; oldest first
}

// get returns a range of at least n bytes with undefined contents.
func (r *ranges) get(n int) ([]byte, error) {
	class := bits.Len(uint(n - 1))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, device.ErrClosed
	}
	if old := r.returned[class]; len(old) > reuseAfter {
		r.returned[class] = old[1:]
		return old[0], nil
	}
	mem, err := addresses(1<<class, largePage-pageBytes) // before the file there is a page for its lock
	if err != nil {
		return nil, err
	}
	r.all = append(r.all, mem)
	return mem, nil
}

// put takes a range back, after it was made blank.
func (r *ranges) put(mem []byte) {
	class := bits.Len(uint(len(mem) - 1))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.returned[class] = append(r.returned[class], mem)
}

// close releases the addresses.
func (r *ranges) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var errs []error
	for _, mem := range r.all {
		errs = append(errs, release(mem))
	}
	r.all = nil
	clear(r.returned[:])
	return errors.Join(errs...)
}
