package mr

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// Table is the live regions of a domain. Its zero value is empty. Any goroutine
// may call its methods; those that look up wait for nobody.
type Table struct {
	now atomic.Pointer[snapshot] // nil: empty
	mu  sync.Mutex               // held by writers

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
	old := t.load()
	t.now.Store(newSnapshot(addKeys(old.byKey, r), insert(old.byBase, r, compareBases)))
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
func (t *Table) Len() int { return len(t.load().byBase) }

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
	if !slices.Contains(old.byBase, r) {
		return
	}
	t.now.Store(newSnapshot(withoutKeys(old.byKey, r), without(old.byBase, r)))
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

// Knows reports whether the key is a region's on the path, or was until lately. It may
// take a lock.
func (t *Table) Knows(path uint8, key uint64) bool {
	return t.load().key(onPath(path, key)) != nil || t.Retired(path, key)
}
