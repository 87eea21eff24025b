//go:build unix

package sys

import "golang.org/x/sys/unix"

// Anonymous maps size bytes, zeroed, of a multiple of the page size. With huge the
// system is asked for large pages, if it has any.
func Anonymous(size int, huge bool) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil && huge {
		adviseHuge(mem)
	}
	return mem, err
}

// Unmap gives back what Anonymous has mapped.
func Unmap(mem []byte) error { return unix.Munmap(mem) }
