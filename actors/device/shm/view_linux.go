package shm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// view is another process's region, mapped here for copies.
type view struct {
	hdr  regionHeader // a copy, checked
	page []byte
	data []byte // nil if it is
	of   *proc  // 's memory

	whole []byte // what data lies in: the first page once more, with the data's rights

	ino, dev uint64 // of the file

	// users are the table that has the view and the copies in progress. The last
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

func (v *view) control() *regionControl { return regionControlOf(v.page) }

// hold keeps the view mapped until release; false: it is unmapped already.
func (v *view) hold() bool { return v.users.join() }

func (v *view) release() {
	if !v.users.quit() {
		return
	}
	v.unmap()
	if v.of != nil {
		v.of.release()
	}
}

func (v *view) unmap() {
	_ = unix.Munmap(v.page)
	_ = release(v.whole)
}

// errCut: the region's file was cut.
var errCut = errors.New("shm: the file of the region was cut")

// safely calls f, which touches the region.
func (v *view) safely(f func()) error {
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
func (v *view) serve(wr *device.SendWR, g *grant) (open bool, err error) {
	cut := v.safely(func() {
		c := v.control()
		c.enter()
		defer c.leave() // the caller's memory may fault, too
		if open = c.holds(); open {
			err = v.copy(wr, g)
			if !c.holds() || !g.holds() {
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
func (v *view) copy(wr *device.SendWR, g *grant) error {
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
func (f *folder) mapRegion(key uint64) (*view, error) {
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
	v := &view{hdr: *(*regionHeader)(unsafe.Pointer(&b))}
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
func (v *view) mapParts(f *folder, fd int, st *unix.Stat_t) (err error) {
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
func (v *view) openAgain(f *folder) (fd int, st unix.Stat_t, err error) {
	if v.hdr.sealed.fd == 0 {
		return f.openOwn(regionName(uint64(v.hdr.key)), unix.O_RDONLY)
	}
	if fd, err = v.hdr.sealed.open(unix.O_RDONLY); err == nil {
		err = unix.Fstat(fd, &st)
	}
	return fd, st, err
}

// named reports whether the region has its file still: the owner's death takes that away.
func (f *folder) named(v *view) bool {
	var st unix.Stat_t
	err := unix.Fstatat(f.fd, regionName(uint64(v.hdr.key)), &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Ino == v.ino && st.Dev == v.dev
}
