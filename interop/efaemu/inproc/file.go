//go:build linux

package inproc

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// File is an open device. Any goroutine may call its methods.
type File struct {
	c *kernel.Context

	mu     sync.Mutex // never held while the context is called, which asks for Maps
	closed bool
	maps   []mapping
}

type mapping struct {
	b []byte // as long as was asked for
	m kernel.Mapping
}

// Open opens the device.
func Open(d *kernel.Device) (*File, error) {
	c, err := d.Open("uverbs0.inproc")
	if err != nil {
		return nil, err
	}
	return &File{c: c}, nil
}

func (f *File) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// Ioctl is ioctl(2). The memory that arg and the attributes point to must not move
// during the call: memory of mmap, not of Go's stacks. The error is a unix.Errno.
func (f *File) Ioctl(cmd uint64, arg unsafe.Pointer) error {
	if f.isClosed() {
		return unix.EBADF
	}
	e := f.c.Ioctl(task{f}, cmd, uint64(uintptr(arg)))
	runtime.KeepAlive(arg)
	if e != 0 {
		return e
	}
	return nil
}

// Mmap is mmap(2) of length bytes at a key that a command has returned. EINVAL: it
// isn't one, or of another length, or flags lacks MAP_SHARED; EPERM: PROT_EXEC.
func (f *File) Mmap(key int64, length, prot, flags int) ([]byte, error) {
	if f.isClosed() {
		return nil, unix.EBADF
	}
	page := unix.Getpagesize()
	if length <= 0 || key < 0 || key%int64(page) != 0 {
		return nil, unix.EINVAL
	}
	size := uint64(length+page-1) &^ uint64(page-1)
	r, ok := f.c.Region(uint64(key))
	switch {
	case !ok || r.Length != size || flags&unix.MAP_SHARED == 0:
		return nil, unix.EINVAL
	case prot&unix.PROT_EXEC != 0:
		return nil, unix.EPERM
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed { // meanwhile; the context's descriptor may be another file's
		return nil, unix.EBADF
	}
	b, err := unix.Mmap(f.c.FD(), key, length, prot, flags)
	if err != nil {
		return nil, err
	}
	f.maps = append(f.maps, mapping{b, kernel.Mapping{
		Start: uint64(uintptr(unsafe.Pointer(&b[0]))), Length: size, Offset: uint64(key),
		Prot: prot & (unix.PROT_READ | unix.PROT_WRITE), Shared: true,
	}})
	return b, nil
}

// Munmap is munmap(2) of a whole mapping of Mmap.
func (f *File) Munmap(b []byte) error {
	last, err := f.unmap(b)
	if err == nil && last {
		f.c.Close()
	}
	return err
}

// unmap reports whether nothing refers to the context any more.
func (f *File) unmap(b []byte) (last bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(b) == 0 {
		return false, unix.EINVAL
	}
	i := slices.IndexFunc(f.maps, func(m mapping) bool { return &m.b[0] == &b[0] && len(m.b) == len(b) })
	if i < 0 {
		return false, unix.EINVAL
	}
	if err := unix.Munmap(f.maps[i].b); err != nil {
		return false, err
	}
	f.maps = slices.Delete(f.maps, i, i+1)
	return f.closed && len(f.maps) == 0, nil
}

// Close is close(2). Mappings stay, with the device's objects for the program: all
// is freed with the last one.
func (f *File) Close() error {
	f.mu.Lock()
	closed, last := f.closed, len(f.maps) == 0
	f.closed = true
	f.mu.Unlock()
	if closed {
		return unix.EBADF
	}
	if last {
		f.c.Close()
	}
	return nil
}

// task is this process as package kernel sees it.
type task struct{ f *File }

// Space implements kernel.Task.
func (task) Space() memory.Space { return memory.Self() }

// InstallFD implements kernel.Task.
func (task) InstallFD(fd int, cloexec bool) (int, error) {
	op := unix.F_DUPFD
	if cloexec {
		op = unix.F_DUPFD_CLOEXEC
	}
	return unix.FcntlInt(uintptr(fd), op, 0)
}

// StatFD implements kernel.Task.
func (task) StatFD(fd int) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	return st.Dev, st.Ino, nil
}

// GetFD implements kernel.Task.
func (task) GetFD(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// Maps implements kernel.Task.
func (t task) Maps() ([]kernel.Mapping, error) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	maps := make([]kernel.Mapping, 0, len(t.f.maps))
	for _, m := range t.f.maps {
		maps = append(maps, m.m)
	}
	return maps, nil
}
