package mr

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// Table is the live regions of a domain. Its zero value is empty. Any goroutine
// may call its methods; those that look up wait for nobody.
type Table struct {
	now atomic.Pointer[snapshot] // nil: empty
	mu  sync.Mutex               // held by writers

	makes maker
	made  uint64 // regions made at all

	exports exports

	past  [maxPast]pathKey // keys of regions that were retired, the latest of them
	npast int              // keys retired at all
}

// maxPast is how many keys of former regions are remembered.
const maxPast = 1024

// Add makes a region of what the device registered for the accesses in a. The
// device sees to it that no two open regions have the same key on one path. The caller closes
// dev when OnIdle of the region says so.
func (t *Table) Add(dev device.MR, a Access) *Region {
	r := newRegion(t, dev, a)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made++
	r.age = math.MaxUint64 - t.made
	t.now.Store(t.load().with(&t.makes, r))
	return r
}

// Resolve finds the memory that an efa_rma_iov names (§3.3), which came on a path, for an
// operation that wants the accesses in want: its bytes and the region to Use before touching
// them. Of the key the device's part matters. An entry of no bytes is checked like
// any other; it may lie at the region's end.
//
// Errors are ErrKey, ErrRight and ErrRange. They are not wrapped.
func (t *Table) Resolve(path uint8, iov wire.RMAIOV, want Access) (*Region, []byte, error) {
	if namesExport(iov) {
		return t.resolveExport(iov, want)
	}
	r := t.load().key(onPath(path, iov.Key))
	if r == nil {
		return nil, nil, ErrKey
	}
	if r.access&want != want {
		return nil, nil, ErrRight
	}
	size := uint64(len(r.mem))
	addr := r.names[path].addr
	offset := iov.Addr - addr // beyond size, too, if it wraps around
	if iov.Addr < addr || offset > size || iov.Len > size-offset {
		return nil, nil, ErrRange
	}
	end := offset + iov.Len
	return r, r.mem[offset:end:end], nil
}

// Find returns a live region that all of p lies in, nil if there is none. If there
// are several, it is one that reaches furthest. An empty p lies nowhere.
func (t *Table) Find(p []byte) *Region {
	if len(p) == 0 {
		return nil
	}
	return t.load().holding(p)
}

// Len is the number of live regions.
func (t *Table) Len() int { return t.load().n }

var empty snapshot

func (t *Table) load() *snapshot {
	if s := t.now.Load(); s != nil {
		return s
	}
	return &empty
}

// remove takes r out of the table, if it is there.
func (t *Table) remove(r *Region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.load()
	now := old.without(&t.makes, r)
	if now == old {
		return
	}
	t.now.Store(now)
	if r.exports > 0 {
		t.forget(func(_ uint64, x *Export) bool { return x.region == r })
	}
	for path := range r.names {
		t.past[t.npast%maxPast] = onPath(uint8(path), r.names[path].key)
		t.npast++
	}
}

// Retired reports whether the key was a region's on the path until lately: a peer that
// names it guesses nothing. It takes a lock.
func (t *Table) Retired(path uint8, key uint64) bool { return t.was(onPath(path, key)) }

// RetiredName is Retired for what an efa_rma_iov names.
func (t *Table) RetiredName(path uint8, iov wire.RMAIOV) bool {
	if namesExport(iov) {
		return t.was(exported(iov.Key))
	}
	return t.Retired(path, iov.Key)
}

func (t *Table) was(key pathKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.past[:min(t.npast, maxPast)], key)
}

// snapshot is the regions of one moment. It never changes.
type snapshot struct {
	byKey  *node // by key on each path
	byBase *node // by the address of the first byte
	n      int   // regions
}

// pathKey is a key of a device and the path that the device carries.
type pathKey struct {
	key  uint64
	path uint8
}

// onPath is the key that a peer names on a path. What the protocol says
// in it does not matter.
func onPath(path uint8, key uint64) pathKey { return pathKey{DeviceKey(key), path} }

// spot is where a region stands by the key.
func (k pathKey) spot(age uint64) spot { return spot{k.key, k.path, age} }

// key returns the oldest region with the key, which onPath made.
func (s *snapshot) key(key pathKey) *Region {
	at, r := s.byKey.find(key.spot(math.MaxUint64))
	if at.at != key.key || at.path != key.path {
		return nil
	}
	return r
}

// holding returns the region that reaches furthest of those that begin at p or
// before. If that does not hold all of p, none does.
func (s *snapshot) holding(p []byte) *Region {
	first := base(p)
	best := s.byBase.furthest(spot{at: uint64(first), age: math.MaxUint64})
	if best.r == nil || best.end < first || uintptr(len(p)) > best.end-first {
		return nil
	}
	return best.r
}

// with returns the snapshot with r.
func (s *snapshot) with(m *maker, r *Region) *snapshot {
	next := &snapshot{byKey: s.byKey, byBase: m.insert(s.byBase, r.baseSpot(), r), n: s.n + 1}
	for path := range r.names {
		next.byKey = m.insert(next.byKey, r.keySpot(path), r)
	}
	return next
}

// without returns the snapshot without r, s itself if r is not in it.
func (s *snapshot) without(m *maker, r *Region) *snapshot {
	if at, _ := s.byBase.find(r.baseSpot()); at != r.baseSpot() || s.n == 0 {
		return s
	}
	next := &snapshot{byKey: s.byKey, byBase: m.remove(s.byBase, r.baseSpot()), n: s.n - 1}
	for path := range r.names {
		next.byKey = m.remove(next.byKey, r.keySpot(path))
	}
	return next
}

func (r *Region) baseSpot() spot { return spot{at: uint64(base(r.mem)), age: r.age} }

func (r *Region) keySpot(path int) spot {
	return onPath(uint8(path), r.names[path].key).spot(r.age)
}

// base is the address of the first byte, to compare with others.
func base(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }
