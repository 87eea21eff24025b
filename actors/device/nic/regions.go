package nic

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

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
		access: m.Access, remote: !m.Local, free: m.Release, size: uint64(m.Foreign),
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

// Region is memory that a device knows, made by Regions. It implements device.MR.
type Region struct {
	device.MRBase
	table  *Regions
	bytes  []byte
	addr   uint64
	key    uint64
	access device.Access
	remote bool
	size   uint64       // of memory of another process, where bytes is nil
	free   func() error // releases the memory in the end; may be nil
	parent *Region      // of a window: what it lies in

	// A copy holds mu for reading. Close locks it for good, so that it
	// returns when the last copy has ended and no later one begins.
	mu sync.RWMutex
}

var _ device.MR = (*Region)(nil)

// Bytes implements device.MR. It is nil for foreign memory.
func (r *Region) Bytes() []byte { return r.bytes }

// Addr implements device.MR.
func (r *Region) Addr() uint64 { return r.addr }

// LKey implements device.MR.
func (r *Region) LKey() uint32 { return uint32(r.key) }

// RKey implements device.MR.
func (r *Region) RKey() uint64 { return r.key }

// Remote implements device.MR.
func (r *Region) Remote() bool { return r.remote }

// Access returns the rights, LocalWrite included where RemoteWrite implies it.
func (r *Region) Access() device.Access { return r.access }

// Close implements device.MR. It waits for copies in progress; no new one begins.
func (r *Region) Close() error {
	if !r.table.remove(r) {
		return device.ErrClosed
	}
	r.mu.Lock()
	var err error
	if r.free != nil {
		err = r.free()
	}
	r.table.gone()
	return err
}

// hold keeps Close from returning until Release. It never waits: it fails once
// Close has begun.
func (r *Region) hold() bool { return r.mu.TryRLock() }

// Release ends what Regions.Hold or HoldLocal began.
func (r *Region) Release() {
	parent := r.parent
	r.mu.RUnlock()
	if parent != nil {
		parent.mu.RUnlock()
	}
}

// at returns the n bytes at the remote address addr; nil and false if they do not
// lie in the region. Zero bytes lie everywhere up to its end.
func (r *Region) at(addr uint64, n int) ([]byte, bool) {
	off, size := addr-r.addr, uint64(len(r.bytes))
	if r.bytes == nil || addr < r.addr || off > size || n < 0 || uint64(n) > size-off {
		return nil, false
	}
	return r.bytes[off : off+uint64(n) : off+uint64(n)], true
}

// contains reports whether b lies in the region.
func (r *Region) contains(b []byte) bool {
	base, at := address(r.bytes), address(b)
	return r.bytes != nil && at >= base && at-base <= uint64(len(r.bytes)) && uint64(len(b)) <= uint64(len(r.bytes))-(at-base)
}

// lies returns the remote address of b, bytes of the region; false if they lie elsewhere.
// Memory of another process has the addresses that it has there.
func (r *Region) lies(b []byte) (uint64, bool) {
	if r.bytes != nil {
		return r.addr + address(b) - address(r.bytes), r.contains(b)
	}
	off := address(b) - r.addr
	return address(b), address(b) >= r.addr && off <= r.size && uint64(len(b)) <= r.size-off
}

// allows reports whether the region may be used for all of a.
func (r *Region) allows(a device.Access) bool {
	const others = device.RemoteRead | device.RemoteWrite
	return r.access&a == a && (r.remote || a&others == 0)
}

// address is where b begins in this process.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// regionTable finds regions by key: open addressing with linear probing. Readers
// use no lock; writers hold Regions.mu. A table never grows, a larger one replaces
// it. A reader that still uses an old one may find a region that was closed
// meanwhile, which cannot be held any more.
type regionTable struct {
	slots []atomic.Pointer[Region] // len is a power of two
	used  int                      // slots that hold or held something
	live  int
}

// minRegionSlots is the size of a table without regions.
const minRegionSlots = 16

// removed marks the slot of a closed region, so that probing goes on.
var removed = new(Region)

// newRegionTable makes a table that is a quarter full with that many regions.
func newRegionTable(live int) *regionTable {
	size := minRegionSlots
	for size < 4*live {
		size <<= 1
	}
	return &regionTable{slots: make([]atomic.Pointer[Region], size)}
}

// slot returns the place where looking for key begins. Keys are random, so any
// bits of them can be used.
func (t *regionTable) slot(key uint64) int { return int(key) & (len(t.slots) - 1) }

func (t *regionTable) get(key uint64) *Region {
	mask := len(t.slots) - 1
	for i := t.slot(key); ; i = (i + 1) & mask { // ends, since a slot is free
		r := t.slots[i].Load()
		if r == nil {
			return nil
		}
		if r != removed && r.key == key {
			return r
		}
	}
}

// local finds the region with an lkey, the low half of the key. All keys with that half are
// looked for from the same slot, since a table has fewer than 1<<32.
func (t *regionTable) local(lkey uint32) *Region {
	mask := len(t.slots) - 1
	for i := t.slot(uint64(lkey)); ; i = (i + 1) & mask {
		r := t.slots[i].Load()
		if r == nil {
			return nil
		}
		if r != removed && uint32(r.key) == lkey {
			return r
		}
	}
}

func (t *regionTable) put(r *Region) {
	mask := len(t.slots) - 1
	for i := t.slot(r.key); ; i = (i + 1) & mask {
		old := t.slots[i].Load()
		if old != nil && old != removed {
			continue
		}
		if old == nil {
			t.used++
		}
		t.slots[i].Store(r)
		t.live++
		return
	}
}

// drop takes r out and reports whether it was in.
func (t *regionTable) drop(r *Region) bool {
	mask := len(t.slots) - 1
	for i := t.slot(r.key); ; i = (i + 1) & mask {
		switch t.slots[i].Load() {
		case nil:
			return false
		case r:
			t.slots[i].Store(removed)
			t.live--
			return true
		}
	}
}

// insert adds r, to a new table if this one is three quarters used.
// Preconditions: t.mu is locked.
func (t *Regions) insert(r *Region) {
	now := t.find.Load()
	if 4*(now.used+1) > 3*len(now.slots) {
		bigger := newRegionTable(now.live + 1)
		for i := range now.slots {
			if o := now.slots[i].Load(); o != nil && o != removed {
				bigger.put(o)
			}
		}
		bigger.put(r)
		t.find.Store(bigger)
		return
	}
	now.put(r)
}

// remove takes r out; false: that was done already.
func (t *Regions) remove(r *Region) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.find.Load().drop(r) {
		return false
	}
	t.past[t.npast%maxPast] = r.key
	t.npast++
	return true
}

// gone notes that a region's memory is not in use here any more.
func (t *Regions) gone() {
	t.mu.Lock()
	t.open--
	t.mu.Unlock()
}

// Keys draws keys that cannot be guessed, many at a time, so that one costs little. One
// goroutine at a time may use it.
type Keys struct {
	// Long makes keys that cannot be found by trying either, of 62 bits instead of 32: the
	// highest two belong to the protocol (mr.DeviceKey).
	Long bool

	drawn [256]byte
	left  int // of drawn that nobody has, its beginning
}

// Draw returns the next.
func (k *Keys) Draw() uint64 {
	if k.left == 0 {
		_, _ = rand.Read(k.drawn[:]) // never fails
		k.left = len(k.drawn)
	}
	k.left -= 8
	key := binary.LittleEndian.Uint64(k.drawn[k.left:])
	if k.Long {
		return key >> 2
	}
	return key >> 32
}

// LongKeys is RegionsConfig.Key for keys of 62 bits.
func LongKeys() func() uint64 { return (&Keys{Long: true}).Draw }
