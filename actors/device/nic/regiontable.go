package nic

import "sync/atomic"

// regionTable finds regions by key: open addressing with linear probing. Readers
// use no lock; who writes has Regions.mu. A table never grows, a larger one takes
// its place. A reader that still looks at an old one may find a region that was
// closed meanwhile, which refuses to be held.
type regionTable struct {
	slots []atomic.Pointer[Region] // len is a power of two
	used  int                      // slots that hold or held something
	live  int
}

// minRegionSlots is the size of a table without regions.
const minRegionSlots = 16

// removed is in the slot of a region that was closed, so that probing goes on.
var removed = new(Region)

// newRegionTable makes one that is a quarter full with so many regions.
func newRegionTable(live int) *regionTable {
	size := minRegionSlots
	for size < 4*live {
		size <<= 1
	}
	return &regionTable{slots: make([]atomic.Pointer[Region], size)}
}

// slot returns the place where looking for key begins. Keys are random, so any
// bits of them will do.
func (t *regionTable) slot(key uint32) int { return int(key) & (len(t.slots) - 1) }

func (t *regionTable) get(key uint32) *Region {
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

// drop takes r out and tells whether it was in.
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

// remove takes r out; false: somebody did already.
func (t *Regions) remove(r *Region) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find.Load().drop(r)
}

// gone notes that a region's memory is nobody's concern here any more.
func (t *Regions) gone() {
	t.mu.Lock()
	t.open--
	t.mu.Unlock()
}
