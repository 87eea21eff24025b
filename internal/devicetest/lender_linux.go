package devicetest

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// makeLent makes the memory that a lender and the test share.
func makeLent(size int) (*os.File, []byte, error) {
	fd, err := unix.MemfdCreate("lent", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), "lent")
	if err := f.Truncate(int64(size)); err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = f.Close()
	}
	return f, mem, err
}

// mapLent is the lender's part. Any process of the user may access its memory, where
// only ancestors could otherwise.
func mapLent(fd int) ([]byte, error) {
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // PR_SET_PTRACER_ANY; EINVAL without Yama
	return unix.Mmap(fd, 0, lenderSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmapLent(mem []byte) { _ = unix.Munmap(mem) }

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&mem[0]))) }

func (w wish) grant(mem []byte) error {
	part := mem[w.Off : w.Off+w.Len]
	switch {
	case w.Unmap:
		return unix.MunmapPtr(unsafe.Pointer(&part[0]), uintptr(w.Len))
	case w.Protect:
		return unix.Mprotect(part, unix.PROT_READ)
	}
	return nil
}
