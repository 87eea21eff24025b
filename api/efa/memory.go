package efa

import (
	"errors"
	"fmt"
	"sync"

	"github.com/efactor/efactor/runtime/arena"
)

// Access is what a memory region may be used for.
type Access uint8

// The access rights (FI_SEND and so on).
const (
	AccessSend Access = 1 << iota
	AccessRecv
	AccessRemoteRead  // not built yet
	AccessRemoteWrite // not built yet
)

// MemoryRegion is memory outside the Go heap: the recommended source of buffers,
// since devices can reach it without a copy. A plain slice works everywhere too.
type MemoryRegion struct {
	mu  sync.Mutex
	mem *arena.Arena
}

// Alloc returns n bytes of zeroed, page-aligned memory outside the Go heap. It
// lives until Close; using its bytes afterwards crashes the program.
func (d *Domain) Alloc(n int, a Access) (*MemoryRegion, error) {
	if a&(AccessRemoteRead|AccessRemoteWrite) != 0 {
		return nil, fmt.Errorf("%w: remote access to memory is not built yet", ErrNotSupported)
	}
	mem, err := arena.New(n)
	switch {
	case errors.Is(err, arena.ErrSize):
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	return &MemoryRegion{mem: mem}, nil
}

// Register makes memory that the caller has known to the device. Not built yet.
func (d *Domain) Register(_ []byte, _ Access) (*MemoryRegion, error) {
	return nil, fmt.Errorf("%w: Register is not built yet, use Alloc", ErrNotSupported)
}

// Bytes is the memory; nil after Close.
func (m *MemoryRegion) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem == nil {
		return nil
	}
	return m.mem.Bytes()
}

// Close frees the memory. No operation may use it any more.
func (m *MemoryRegion) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem == nil {
		return nil
	}
	mem := m.mem
	m.mem = nil
	return mem.Close()
}
