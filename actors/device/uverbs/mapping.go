//go:build linux

package uverbs

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mappings are the parts of the device that a queue has mapped.
type mappings struct {
	file File
	all  [][]byte
}

// add maps n bytes at a key that the device gave; the last page need not be whole.
func (m *mappings) add(what string, key, n uint64, prot int) ([]byte, error) {
	if n == 0 || n > maxMapping || key > 1<<62 {
		return nil, fmt.Errorf("%w: %s of %d bytes at %#x", errLies, what, n, key)
	}
	b, err := m.file.Mmap(int64(key), int(n), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("uverbs: map %s: %w", what, err)
	}
	m.all = append(m.all, b)
	return b, nil
}

// maxMapping bounds a queue: the longest there may be is 2 MiB.
const maxMapping = 64 << 20

// doorbell maps the page of a doorbell, which lies off bytes in it.
func (m *mappings) doorbell(what string, key uint64, off uint32) (*uint32, error) {
	page := os.Getpagesize()
	if off%4 != 0 || int64(off)+4 > int64(page) {
		return nil, fmt.Errorf("%w: %s at %d of its page", errLies, what, off)
	}
	b, err := m.add(what, key, uint64(page), unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	return (*uint32)(unsafe.Pointer(&b[off])), nil
}

// close unmaps everything.
func (m *mappings) close() error {
	var errs []error
	for _, b := range m.all {
		errs = append(errs, m.file.Munmap(b))
	}
	m.all = nil
	return errors.Join(errs...)
}

// pageAlign is n, rounded up to whole pages.
func pageAlign(n uint64) uint64 {
	page := uint64(os.Getpagesize())
	return (n + page - 1) &^ (page - 1)
}

// roundUp is the power of two that is n or the next above it.
func roundUp(n int) int {
	p := 1
	for p < n {
		p <<= 1
	}
	return p
}
