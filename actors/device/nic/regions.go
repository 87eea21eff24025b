package nic

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/arena"
)

// DefaultMaxRegions is how many regions a device has by default.
const DefaultMaxRegions = 1 << 16

// regionPage is the alignment of virtual addresses that RegionsConfig.Base makes.
const regionPage = 4096

// keyTries is how many keys are drawn to find a free one. With all regions in use a
// random key is taken once in 65536 times.
const keyTries = 16

// maxPast is how many keys of former regions are remembered.
const maxPast = 4096

// ErrBusy is Regions.Close's while regions are open.
var ErrBusy = errors.New("nic: memory regions are open")

// RegionsConfig describes a table of regions; the zero value is one for real time.
type RegionsConfig struct {
	Max int // most live regions; 0: DefaultMaxRegions

	// Key draws a key. Register calls it, one call at a time for a table. nil: keys of 32
	// bits that cannot be guessed.
	Key func() uint64

	// Base makes addresses mere numbers that count up from it, page by page, and
	// are never used twice. 0: they are virtual addresses.
	Base uint64
}

// Regions is the table of a device's memory regions. Any goroutine may call its
// methods. Hold, HoldLocal and Region.Release neither wait nor allocate.
type Regions struct {
	max  int
	draw func() uint64
	find atomic.Pointer[regionTable]

	windows atomic.Pointer[windowTable] // nil: there never was one

	mu     sync.Mutex
	next   uint64 // of addresses that are numbers
	open   int    // regions whose Close has not returned
	closed bool
	past   [maxPast]uint64 // keys of regions that were closed, the latest of them
	npast  int             // regions closed at all
}

// NewRegions returns an empty table.
func NewRegions(c RegionsConfig) *Regions {
	t := &Regions{max: c.Max, draw: c.Key, next: c.Base}
	if t.max <= 0 {
		t.max = DefaultMaxRegions
	}
	if t.draw == nil {
		t.draw = new(Keys).Draw
	}
	t.find.Store(newRegionTable(0))
	return t
}

// Memory describes a region to Add.
type Memory struct {
	Bytes  []byte
	Access device.Access
	// Foreign is the size of memory of another process: Bytes is nil, Addr is its
	// address there, and only the driver can reach it.
	Foreign int
	// Local: RDMA of others does not reach it (device.MR's Remote).
	Local bool
	// Addr is the remote address of the first byte. 0: as RegionsConfig.Base says.
	Addr uint64
	// Release is called once, by Close, when the memory is no longer accessed. nil:
	// the memory is not released.
	Release func() error
}

// Register is device.Device's.
func (t *Regions) Register(mem []byte, a device.Access) (device.MR, error) {
	r, err := t.Add(Memory{Bytes: mem, Access: a})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Alloc is device.Device's, with memory of an arena.
func (t *Regions) Alloc(n int, a device.Access) (device.MR, error) {
	slab, err := arena.New(n)
	switch {
	case errors.Is(err, arena.ErrSize) && n <= 0:
		return nil, fmt.Errorf("%w: region of %d bytes", device.ErrNotSupported, n)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", device.ErrNoMemory, err)
	}
	r, err := t.Add(Memory{Bytes: slab.Bytes(), Access: a, Release: slab.Close})
	if err != nil {
		return nil, errors.Join(err, slab.Close())
	}
	return r, nil
}

// Add makes a region. After an error the memory is the caller's and Release is
// not called.
func (t *Regions) Add(m Memory) (*Region, error) {
	const all = device.LocalWrite | device.RemoteWrite | device.RemoteRead
	switch {
	case m.Foreign < 0 || m.Foreign == 0 && len(m.Bytes) == 0:
		return nil, fmt.Errorf("%w: region of %d bytes", device.ErrNotSupported, m.Foreign)
	case m.Foreign > 0 && (m.Bytes != nil || m.Addr == 0):
		return nil, fmt.Errorf("%w: foreign region at %#x", device.ErrNotSupported, m.Addr)
	case m.Access&^all != 0:
		return nil, fmt.Errorf("%w: access %#x", device.ErrNotSupported, m.Access)
	}
	if m.Access&device.RemoteWrite != 0 {
		m.Access |= device.LocalWrite
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, device.ErrClosed
	}
	if t.open >= t.max {
		return nil, fmt.Errorf("%w: %d regions", device.ErrNoMemory, t.open)
	}
	key := t.newKey()
	if key == 0 {
		return nil, fmt.Errorf("%w: no free key", device.ErrNoMemory)
	}
	addr, ok := t.newAddr(&m)
	if !ok {
		return nil, fmt.Errorf("%w: no addresses", device.ErrNoMemory)
	}
	r := &Region{
		table: t, bytes: m.Bytes, addr: addr, key: key,
		access: m.Access, remote: !m.Local, give: m.Release, size: uint64(m.Foreign),
	}
	t.open++
	t.insert(r)
	return r, nil
}

// newKey draws a key of which both the whole and the low half, the lkey, are free; 0: there
// is none.
func (t *Regions) newKey() uint64 {
	for range keyTries {
		if k := t.draw(); uint32(k) != 0 && t.find.Load().local(uint32(k)) == nil && t.window(k) == nil {
			return k
		}
	}
	return 0
}

func (t *Regions) newAddr(m *Memory) (uint64, bool) {
	switch {
	case m.Addr != 0:
		return m.Addr, m.Addr+uint64(len(m.Bytes)+m.Foreign) > m.Addr
	case t.next == 0:
		return address(m.Bytes), true
	}
	addr := t.next
	end := addr + (uint64(len(m.Bytes))+regionPage-1)&^(regionPage-1)
	if end < addr {
		return 0, false
	}
	t.next = end
	return addr, true
}

// Hold finds the n bytes at addr in the region or window with the remote key, if it
// allows all of a, and keeps them in place until Region.Release. nil: the request is to be
// refused, as for memory of another process.
func (t *Regions) Hold(key uint64, addr uint64, n int, a device.Access) (*Region, []byte) {
	r := t.find.Load().get(key)
	if r == nil {
		return t.holdWindow(key, addr, n, a)
	}
	if !r.allows(a) {
		return nil, nil
	}
	mem, ok := r.at(addr, n)
	if !ok || !r.hold() {
		return nil, nil
	}
	return r, mem
}

// HoldLocal is Hold for the local side of a request: b must lie in the region
// that lkey names. nil: it does not.
func (t *Regions) HoldLocal(lkey uint32, b []byte, a device.Access) *Region {
	r := t.find.Load().local(lkey)
	if r == nil || !r.allows(a) || !r.contains(b) || !r.hold() {
		return nil
	}
	return r
}

// HoldSource is Hold for memory that is to be lent to others, where the driver has windows
// of its own. It gives the remote address of b.
func (t *Regions) HoldSource(lkey uint32, b []byte) (*Region, uint64) {
	r := t.find.Load().local(lkey)
	if r == nil || !r.remote {
		return nil, 0
	}
	addr, ok := r.lies(b)
	if !ok || !r.hold() {
		return nil, 0
	}
	return r, addr
}

// Knows reports whether the key is a region's or a window's, or was one until lately: who names it guesses
// nothing. It may take a lock.
func (t *Regions) Knows(key uint64) bool {
	if t.find.Load().get(key) != nil || t.window(key) != nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wasWindow(key) || slices.Contains(t.past[:min(t.npast, maxPast)], key)
}

// Len returns the number of open regions.
func (t *Regions) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// Close makes later calls of Register fail with device.ErrClosed. It reports
// ErrBusy, and does nothing, while regions are open.
func (t *Regions) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open > 0 {
		return fmt.Errorf("%w: %d", ErrBusy, t.open)
	}
	t.closed = true
	return nil
}
