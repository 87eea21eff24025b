package arena

import (
	"errors"
	"fmt"
	"os"
)

// ErrSize is the cause of every error about a size that can't be allocated.
var ErrSize = errors.New("arena: invalid size")

// hugePage is the size from which slabs ask for huge pages.
const hugePage = 2 << 20

// maxSize keeps the arithmetic of sizes from overflowing.
const maxSize = 1 << 46

// Arena is one slab. It isn't safe for concurrent Close and use.
type Arena struct {
	mem  []byte // what was asked for
	slab []byte // whole pages around it
}

// New returns a slab of size bytes, zeroed and aligned to a page.
func New(size int) (*Arena, error) {
	if size <= 0 || uint64(size) > maxSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrSize, size)
	}
	page := os.Getpagesize()
	whole := (size + page - 1) &^ (page - 1)
	slab, err := alloc(whole, page)
	if err != nil {
		return nil, fmt.Errorf("arena: %d bytes: %w", size, err)
	}
	return &Arena{mem: slab[:size:size], slab: slab}, nil
}

// Bytes returns the memory; nil after Close.
func (a *Arena) Bytes() []byte { return a.mem }

// Close releases the memory. A second Close does nothing.
func (a *Arena) Close() error {
	slab := a.slab
	a.mem, a.slab = nil, nil
	if slab == nil {
		return nil
	}
	if err := free(slab); err != nil {
		return fmt.Errorf("arena: %w", err)
	}
	return nil
}
