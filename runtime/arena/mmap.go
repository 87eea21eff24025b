//go:build !race

package arena

import "golang.org/x/sys/unix"

func alloc(size, _ int) ([]byte, error) {
	slab, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	if size >= hugePage {
		// A hint: kernels without huge pages refuse it, and that is fine.
		_ = unix.Madvise(slab, unix.MADV_HUGEPAGE)
	}
	return slab, nil
}

func free(slab []byte) error { return unix.Munmap(slab) }
