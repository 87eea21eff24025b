package shm

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// maxMappings bounds how many regions of others a device has mapped. A mapping costs
// no memory while its region is open; beyond the bound the least recently used one
// is dropped.
const maxMappings = 1024

// mappings is the table of the regions that a device has mapped, of others or its own.
// Finding one takes no lock. Regions that were closed or whose owners died are
// dropped when a request or the watcher finds them, or another is mapped.
type mappings struct {
	directory *directory
	clock     atomic.Uint64
	byKey     atomic.Pointer[map[uint64]*mapping] // never changed, only replaced
	mu        sync.Mutex                          // held to replace it

	procs   map[processID]*proc // of mappings; guarded by mu
	denials ptraceDenials
}

func newMappings(f *directory, log *slog.Logger) *mappings {
	vs := &mappings{directory: f, procs: map[processID]*proc{}, denials: ptraceDenials{log: log}}
	vs.byKey.Store(&map[uint64]*mapping{})
	return vs
}

// carry carries out a WRRead or WRWrite on the region of a key. The error is why its status is not OK.
func (vs *mappings) carry(wr *device.SendWR, key uint64, g grant) (device.Status, error) {
	for {
		v, fresh, err := vs.get(key)
		if err != nil {
			return vs.statusOf(err), err
		}
		open, err := vs.use(v, wr, &g)
		switch {
		case !open && (fresh || errors.Is(err, errCut)):
			return device.StatusBadAddress, err
		case !open: // another region may have the key by now
		case err != nil:
			return vs.statusOf(err), err
		default:
			return device.StatusOK, nil
		}
	}
}

// use serves a request and releases the mapping, also if the bytes are in memory of ours that was
// cut: then it panics. False: the region is closed, or cut.
func (vs *mappings) use(v *mapping, wr *device.SendWR, g *grant) (open bool, err error) {
	defer v.release()
	if open, err = v.serve(wr, g); !open || v.of != nil && v.of.over.Load() {
		vs.drop(v)
	}
	return open, err
}

// statusOf is the status of a request that failed with err.
func (vs *mappings) statusOf(err error) device.Status {
	if errors.Is(err, errDenied) || errors.Is(err, errHidden) {
		vs.denials.add("RDMA with memory of another process ends with a bad address", err)
	}
	for _, bad := range []error{errNoRegion, errNotSealed, errElsewhere, errHidden, unix.ENOENT, errNoSegment, errOver, errFault, errDenied} {
		if errors.Is(err, bad) {
			return device.StatusBadAddress
		}
	}
	return device.StatusQPInternal // out of descriptors or mappings, say
}

// get finds the region of a key, or maps it: then fresh is true. The caller must
// release it.
func (vs *mappings) get(key uint64) (v *mapping, fresh bool, err error) {
	if v := (*vs.byKey.Load())[key]; v != nil && v.join() {
		v.used.Store(vs.clock.Add(1))
		return v, false, nil
	}
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if v := (*vs.byKey.Load())[key]; v != nil && v.join() {
		return v, false, nil
	}
	vs.dropLocked((*mapping).over) // so that there are no more than are open, and one
	if v, err = vs.directory.mapRegion(key); err != nil {
		return nil, true, err
	}
	if v.hdr.kind == kindProcess {
		if v.of, err = vs.proc(v.hdr.process); err != nil {
			v.release()
			return nil, true, err
		}
	}
	v.join()
	v.used.Store(vs.clock.Add(1))
	vs.change(func(m map[uint64]*mapping) {
		if len(m) >= maxMappings {
			v := oldest(m)
			delete(m, uint64(v.hdr.key))
			v.release()
		}
		m[key] = v
	})
	return v, true, nil
}

func oldest(m map[uint64]*mapping) (o *mapping) {
	for _, v := range m {
		if o == nil || v.used.Load() < o.used.Load() {
			o = v
		}
	}
	return o
}

// change replaces the table. Preconditions: vs.mu is locked.
func (vs *mappings) change(f func(map[uint64]*mapping)) {
	m := maps.Clone(*vs.byKey.Load())
	f(m)
	vs.byKey.Store(&m)
}

// proc finds the process of a region, or checks that it is there. The caller must
// release it. Preconditions: vs.mu is locked.
func (vs *mappings) proc(id processID) (*proc, error) {
	if p := vs.procs[id]; p != nil && !p.over.Load() && p.users.join() {
		return p, nil
	}
	maps.DeleteFunc(vs.procs, func(_ processID, p *proc) bool { return p.users.n.Load() == 0 })
	p, err := findProcess(id)
	if err == nil {
		vs.procs[id] = p
	}
	return p, err
}

// drop takes v out of the table. It is unmapped after the last copy.
func (vs *mappings) drop(v *mapping) { vs.dropIf(func(o *mapping) bool { return o == v }) }

// prune drops the regions that are closed.
func (vs *mappings) prune() { vs.dropIf((*mapping).over) }

// over reports whether the region is closed, or cut.
func (v *mapping) over() (closed bool) {
	return v.safely(func() { closed = !v.control().open() }) != nil || closed
}

// clear takes all out.
func (vs *mappings) clear() { vs.dropIf(func(*mapping) bool { return true }) }

func (vs *mappings) dropIf(stale func(*mapping) bool) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.dropLocked(stale)
}

func (vs *mappings) dropLocked(stale func(*mapping) bool) {
	var out []*mapping
	for _, v := range *vs.byKey.Load() {
		if stale(v) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return
	}
	vs.change(func(m map[uint64]*mapping) {
		for _, v := range out {
			delete(m, uint64(v.hdr.key))
		}
	})
	for _, v := range out {
		v.release()
	}
}

// mapping is another process's region, mapped here for copies.
type mapping struct {
	hdr  regionHeader // a copy, checked
	page []byte
	data []byte // nil if it is
	of   *proc  // 's memory

	whole []byte // what data lies in: the first page once more, with the data's rights

	ino, dev uint64 // of the file

	// users are the table that has the mapping and the copies in progress. The last
	// one unmaps it.
	users users
	used  atomic.Uint64 // when it was last, in uses of the table
}

// users counts references. Once there are none, none can be added.
type users struct{ n atomic.Int32 }

// join adds one; false if there are none any more.
func (u *users) join() bool {
	for {
		n := u.n.Load()
		if n == 0 {
			return false
		}
		if u.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// quit drops one and reports whether it was the last.
func (u *users) quit() bool { return u.n.Add(-1) == 0 }

func (v *mapping) control() *regionControl { return regionControlOf(v.page) }

// join keeps the mapping until release; false: it is unmapped already.
func (v *mapping) join() bool { return v.users.join() }

func (v *mapping) release() {
	if !v.users.quit() {
		return
	}
	v.unmap()
	if v.of != nil {
		v.of.release()
	}
}

func (v *mapping) unmap() {
	_ = unix.Munmap(v.page)
	_ = release(v.whole)
}

// errCut: the region's file was cut.
var errCut = errors.New("shm: the file of the region was cut")

// safely calls f, which touches the region.
func (v *mapping) safely(f func()) error {
	if v.hdr.sealed.fd != 0 {
		f()
		return nil
	}
	if !guarded(f, func(ft fault) bool { return ft.in(v.page) || ft.in(v.whole) }) {
		return errCut
	}
	return nil
}

// serve carries out a request under a lease. False: the region is closed, or cut.
func (v *mapping) serve(wr *device.SendWR, g *grant) (open bool, err error) {
	cut := v.safely(func() {
		c := v.control()
		c.addLease()
		defer c.dropLease() // the caller's memory may fault, too
		if open = c.open(); open {
			err = v.copy(wr, g)
			if !c.open() || !g.valid() {
				err = errNoRegion // closed meanwhile: the copied bytes are undefined
			}
		}
	})
	if cut != nil {
		return false, cut
	}
	return open, err
}

// copy carries out a request on the data. Preconditions: a lease was taken, and the
// region was open after that.
func (v *mapping) copy(wr *device.SendWR, g *grant) error {
	off, ok := v.hdr.offset(wr.Remote, len(wr.Payload))
	if !ok || !g.allows(&v.hdr, nic.RemoteAccess(wr.Kind)) {
		return errNoRegion
	}
	if v.of != nil {
		return v.of.copy(wr.Kind, wr.Payload, wr.Remote)
	}
	if wr.Kind == device.WRRead {
		copy(wr.Payload, v.data[off:])
	} else {
		copy(v.data[off:], wr.Payload)
	}
	return nil
}

// mapRegion maps the region of a key. errNoRegion or ENOENT: there is none.
func (f *directory) mapRegion(key uint64) (*mapping, error) {
	name := regionName(key)
	fd, st, err := f.openOwn(name, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var b [unsafe.Sizeof(regionHeader{})]byte
	if n, err := unix.Pread(fd, b[:], 0); err != nil || n != len(b) {
		return nil, fmt.Errorf("%w: %s", errNoRegion, name)
	}
	v := &mapping{hdr: *(*regionHeader)(unsafe.Pointer(&b))}
	if err := v.hdr.check(key, st.Size); err != nil {
		return nil, err
	}
	if !lockedByOther(fd) {
		f.removeRegion(fd, name)
		return nil, fmt.Errorf("%w: its owner is dead", errNoRegion)
	}
	v.ino, v.dev = st.Ino, st.Dev
	if v.hdr.sealed.fd != 0 {
		mem, err := v.hdr.sealed.open(unix.O_RDWR)
		if err != nil {
			return nil, err
		}
		defer unix.Close(mem)
		fd = mem
		if unix.Fstat(fd, &st) != nil || st.Size < int64(v.hdr.fileBytes()) {
			return nil, fmt.Errorf("%w: sealed memory", errNoRegion)
		}
	}
	if err := v.mapParts(f, fd, &st); err != nil {
		return nil, err
	}
	same := false
	if v.safely(func() { same = *regionHeaderOf(v.page) == v.hdr }) != nil || !same { // another's, with the process's number
		v.unmap()
		return nil, fmt.Errorf("%w: sealed memory", errNoRegion)
	}
	v.users.n.Store(1)
	return v, nil
}

// populateMax is the size up to which a writable region has all its pages mapped at
// once, in 150 us for a MiB. Later, one fault for each, they cost three times that, but
// no request has to wait for more than its own. Faults of reads map many.
const populateMax = 1 << 20

// mapParts maps the first page writable and the data as the rights allow. A
// read-only file is opened anew, so that the mapping cannot become writable.
func (v *mapping) mapParts(f *directory, fd int, st *unix.Stat_t) (err error) {
	prot, flags := unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED
	if v.page, err = unix.Mmap(fd, 0, pageBytes, prot, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("shm: map region: %w", err)
	}
	if v.hdr.kind == kindProcess {
		return nil
	}
	if !v.hdr.allows(device.RemoteWrite) {
		prot = unix.PROT_READ
		ro, again, err := v.openAgain(f)
		if err == nil {
			defer unix.Close(ro)
			fd = ro
			if again.Ino != st.Ino || again.Dev != st.Dev {
				err = fmt.Errorf("%w: replaced", errNoRegion)
			}
		}
		if err != nil {
			return errors.Join(err, unix.Munmap(v.page))
		}
	}
	if prot&unix.PROT_WRITE != 0 && v.hdr.size <= populateMax {
		flags |= unix.MAP_POPULATE
	}
	if v.whole, err = mapWhole(fd, v.hdr.fileBytes(), prot, flags); err != nil {
		return errors.Join(err, unix.Munmap(v.page))
	}
	v.data = v.whole[pageBytes:][:v.hdr.size]
	return nil
}

// openAgain opens the memory for reading alone.
func (v *mapping) openAgain(f *directory) (fd int, st unix.Stat_t, err error) {
	if v.hdr.sealed.fd == 0 {
		return f.openOwn(regionName(uint64(v.hdr.key)), unix.O_RDONLY)
	}
	if fd, err = v.hdr.sealed.open(unix.O_RDONLY); err == nil {
		err = unix.Fstat(fd, &st)
	}
	return fd, st, err
}

// named reports whether the region has its file still: the owner's death takes that away.
func (f *directory) named(v *mapping) bool {
	var st unix.Stat_t
	err := unix.Fstatat(f.fd, regionName(uint64(v.hdr.key)), &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Ino == v.ino && st.Dev == v.dev
}
