package shm

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// Large regions lie in large pages where the kernel has some: a copy of megabytes then does not
// wait for the translation of an address at each 4 KiB, neither the owner's nor another
// process's. Both map the file so that the kernel can do that: what lies at a multiple of
// largePage in the file does in memory, too.
const (
	largePage = 2 << 20
	// leastLarge is the size of a file from which that pays.
	leastLarge = 2 * largePage
)

// madvCollapse is MADV_COLLAPSE (Linux 6.1), which asks for large pages at once, whatever
// /sys/kernel/mm/transparent_hugepage/shmem_enabled says of those that nobody asks for, unless
// that is deny.
const madvCollapse = 25

// enlarge gives a new file of that size large pages, as far as the kernel has some and the size
// is a multiple of theirs.
func enlarge(fd, size int) {
	whole := size &^ (largePage - 1)
	if size < leastLarge || !hasRoom(fd, size) || unix.Ftruncate(fd, int64(size)) != nil {
		return
	}
	for off := 0; off < whole; off += largePage { // the kernel passes over what is empty
		if _, err := unix.Pwrite(fd, []byte{0}, int64(off)); err != nil {
			return
		}
	}
	if mem, err := mapWhole(fd, whole, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		_ = unix.Madvise(mem, madvCollapse)
		_ = release(mem)
	}
}

// hasRoom reports whether that much fits a file's file system, if that has a limit.
func hasRoom(fd, size int) bool {
	var fs unix.Statfs_t
	err := unix.Fstatfs(fd, &fs)
	return err == nil && (fs.Blocks == 0 || uint64(size) <= fs.Bavail*uint64(fs.Bsize))
}

// addresses reserves n bytes of address space, and what is left of the last page. If n is the size
// of something that is to lie in large pages the first byte is off behind a multiple of theirs.
func addresses(n, off int) ([]byte, error) {
	more := 0
	if n >= leastLarge {
		more = largePage
	}
	n = (n + pageBytes - 1) &^ (pageBytes - 1)
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n+more), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("%w: %d bytes of address space: %w", device.ErrNoMemory, n, err)
	}
	all := unsafe.Slice((*byte)(p), n+more)
	if more == 0 {
		return all, nil
	}
	skip := (off - int(uintptr(p)%largePage) + largePage) % largePage
	return all[skip : skip+n], errors.Join(release(all[:skip]), release(all[skip+n:]))
}

// mapWhole maps size bytes of a file from its beginning, where large pages begin. Release undoes it.
func mapWhole(fd, size, prot, flags int) ([]byte, error) {
	mem, err := addresses(size, 0)
	if err != nil {
		return nil, err
	}
	if _, err = unix.MmapPtr(fd, 0, unsafe.Pointer(&mem[0]), uintptr(len(mem)), prot, flags|unix.MAP_FIXED); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: map: %w", err), release(mem))
	}
	return mem[:size], nil
}

// release gives addresses back, whole pages of them.
func release(mem []byte) error {
	if len(mem) == 0 {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(&mem[0]), uintptr(len(mem)))
}
