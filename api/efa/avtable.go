package efa

import (
	"math/bits"
	"sync/atomic"
)

// avEntry is an address and when it was inserted, counted from 1. Entries are
// never changed.
type avEntry struct {
	raw     RawAddr // of the path that was chosen
	age     uint64
	all     *Address // as it was inserted, if it has more paths than that
	path    uint8    // of Fabric.paths
	leaving bool     // removed, but not all endpoints have been told; age is 0
	value   any      // of the application's
	name    string   // what errors and logs call the peer, or ""
}

// pageSize is how many handles a page has.
const pageSize = 256

type avPage [pageSize]atomic.Pointer[avEntry]

// avTable is the entries by handle, read without a lock. One goroutine at a time
// writes.
type avTable struct {
	pages atomic.Pointer[[]*avPage]
	n     uint64 // handles that were ever used

	free   []uint64 // bitmap of handles below n that may be used again
	lowest int      // no word before this one has a bit
}

func (t *avTable) init() { t.pages.Store(new([]*avPage)) }

// get is the entry of a handle; its age is 0 if the handle is not in use.
func (t *avTable) get(h uint64) avEntry {
	pages, size := *t.pages.Load(), uint64(len(avPage{}))
	if h/size >= uint64(len(pages)) {
		return avEntry{}
	}
	if x := pages[h/size][h%size].Load(); x != nil {
		return *x
	}
	return avEntry{}
}

// value is what the application has attached to a handle.
func (t *avTable) value(h uint64) any {
	pages, size := *t.pages.Load(), uint64(len(avPage{}))
	if h/size >= uint64(len(pages)) {
		return nil
	}
	if x := pages[h/size][h%size].Load(); x != nil {
		return x.value
	}
	return nil
}

// setValue attaches a value to a handle that is in use.
func (t *avTable) setValue(h uint64, v any) {
	x := t.get(h)
	x.value = v
	t.put(h, &x)
}

// add puts an entry at the lowest free handle.
func (t *avTable) add(x avEntry) uint64 {
	h, again := t.takeFree()
	if !again {
		h = t.n
		t.n++
	}
	pages, size := *t.pages.Load(), uint64(len(avPage{}))
	if h/size == uint64(len(pages)) {
		pages = append(pages, new(avPage))
		t.pages.Store(&pages)
	}
	t.put(h, &x)
	return h
}

var leaving = &avEntry{leaving: true}

// remove takes an entry out. Its handle is not used again before release.
func (t *avTable) remove(h uint64) { t.put(h, leaving) }

func (t *avTable) put(h uint64, x *avEntry) {
	size := uint64(len(avPage{}))
	(*t.pages.Load())[h/size][h%size].Store(x)
}

// release makes a handle free.
func (t *avTable) release(h uint64) {
	t.put(h, nil)
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
