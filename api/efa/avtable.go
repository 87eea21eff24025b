package efa

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// avPage is how many entries lie together: what a change of one copies.
const avPage = 256

// avEntry is an address and when it was inserted, counted from 1; 0 is free.
type avEntry struct {
	raw RawAddr
	age uint64
}

// avTable is the entries by handle. Reading takes no lock: what has been published
// is never changed, only replaced. One goroutine at a time writes.
type avTable struct {
	pages atomic.Pointer[[]*[avPage]avEntry]
	n     atomic.Uint64 // entries that were ever used

	free   []uint64 // bitmap of handles below n that may be used again
	lowest int      // no word before this one has a bit
}

func (t *avTable) init() { t.pages.Store(new([]*[avPage]avEntry)) }

// get is the entry of a handle; its age is 0 if the handle is not in use.
func (t *avTable) get(h uint64) avEntry {
	if h >= t.n.Load() {
		return avEntry{}
	}
	return (*t.pages.Load())[h/avPage][h%avPage]
}

// add puts an entry at the lowest free handle.
func (t *avTable) add(x avEntry) uint64 {
	if h, ok := t.takeFree(); ok {
		t.set(h, x)
		return h
	}
	h := t.n.Load()
	pages := *t.pages.Load()
	if h/avPage == uint64(len(pages)) {
		pages = append(pages, new([avPage]avEntry))
		t.pages.Store(&pages)
	}
	pages[h/avPage][h%avPage] = x // nobody looks at it before n says so
	t.n.Store(h + 1)
	return h
}

// set replaces a published entry.
func (t *avTable) set(h uint64, x avEntry) {
	pages := slices.Clone(*t.pages.Load())
	page := *pages[h/avPage]
	page[h%avPage] = x
	pages[h/avPage] = &page
	t.pages.Store(&pages)
}

// release makes a handle free.
func (t *avTable) release(h uint64) {
	w := int(h / 64)
	for w >= len(t.free) {
		t.free = append(t.free, 0)
	}
	t.free[w] |= 1 << (h % 64)
	t.lowest = min(t.lowest, w)
}

func (t *avTable) takeFree() (uint64, bool) {
	for ; t.lowest < len(t.free); t.lowest++ {
		if w := t.free[t.lowest]; w != 0 {
			t.free[t.lowest] = w & (w - 1)
			return uint64(t.lowest*64 + bits.TrailingZeros64(w)), true
		}
	}
	return 0, false
}
