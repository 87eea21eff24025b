package nic

import "sync/atomic"

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
