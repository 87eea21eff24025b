package nic

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
)

// windowSlots bounds the windows of a table. A window is found at the place that the low
// bits of its key name, so keys are drawn until that place is free.
const windowSlots = 1 << 10

// window is a place of one. After r is held, key is read again: if it is the same, r belongs
// to it.
type window struct {
	key atomic.Uint64 // 0: free
	r   Region
}

type windowTable struct {
	slots [windowSlots]window

	// guarded by Regions.mu
	past  [windowSlots]uint64 // keys that were returned, the latest of them
	npast int
}

// Lend implements Lender: the window lies in the region that lkey names, for others to
// read. The region's own rights do not matter.
func (t *Regions) Lend(lkey uint32, mem []byte) (uint64, error) {
	parent := t.find.Load().local(lkey)
	if parent == nil || !parent.remote || !parent.contains(mem) {
		return 0, device.ErrBadKey
	}
	return t.lend(parent, mem, parent.addr+address(mem)-address(parent.bytes))
}

// plainAddr is what requests call the first byte of memory in no region.
const plainAddr = 1 << 12

// LendPlain implements PlainLender, with a window in no region. Who knows the key may read it.
func (t *Regions) LendPlain(_ Source, mem []byte) (rkey, addr uint64, err error) {
	rkey, err = t.lend(nil, mem, plainAddr)
	return rkey, plainAddr, err
}

// Relend implements PlainLender. It waits for copies in progress; later ones are of mem.
func (t *Regions) Relend(rkey uint64, mem []byte) error {
	w := t.window(rkey)
	if w == nil {
		return device.ErrBadKey
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if w.key.Load() != rkey || w.r.parent != nil || len(w.r.bytes) != len(mem) {
		return device.ErrBadKey
	}
	w.r.bytes = mem[:len(mem):len(mem)]
	return nil
}

// lend opens a window at addr, in a region or, with parent nil, in none.
func (t *Regions) lend(parent *Region, mem []byte, addr uint64) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ws := t.windows.Load()
	if ws == nil {
		ws = new(windowTable)
		t.windows.Store(ws)
	}
	for range keyTries {
		k := t.draw()
		w := &ws.slots[k%windowSlots]
		if k == 0 || w.key.Load() != 0 || t.find.Load().get(k) != nil {
			continue
		}
		w.r.mu.Lock() // for a moment a late reader may have it
		w.r.parent, w.r.bytes, w.r.addr = parent, mem[:len(mem):len(mem)], addr
		w.r.access, w.r.remote = device.RemoteRead, true
		w.key.Store(k)
		w.r.mu.Unlock()
		return k, nil
	}
	return 0, fmt.Errorf("%w: no free window", device.ErrNoMemory)
}

// Return implements Lender. It waits for copies in progress.
func (t *Regions) Return(rkey uint64) {
	w := t.window(rkey)
	if w == nil {
		return
	}
	t.mu.Lock()
	ws := t.windows.Load()
	ws.past[ws.npast%len(ws.past)] = rkey
	ws.npast++
	t.mu.Unlock()
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if w.key.CompareAndSwap(rkey, 0) {
		w.r.parent, w.r.bytes = nil, nil
	}
}

// wasWindow reports whether the key was a window's until lately. Preconditions: t.mu is
// locked.
func (t *Regions) wasWindow(key uint64) bool {
	ws := t.windows.Load()
	return ws != nil && slices.Contains(ws.past[:min(ws.npast, len(ws.past))], key)
}

// window finds the place of a window that is open; nil: there is none.
func (t *Regions) window(key uint64) *window {
	ws := t.windows.Load()
	if ws == nil || key == 0 {
		return nil
	}
	if w := &ws.slots[key%windowSlots]; w.key.Load() == key {
		return w
	}
	return nil
}

// holdWindow is Hold for a window. Its region is held, too, if it lies in one.
func (t *Regions) holdWindow(key uint64, addr uint64, n int, a device.Access) (*Region, []byte) {
	w := t.window(key)
	if w == nil || !w.r.hold() {
		return nil, nil
	}
	if w.key.Load() == key && w.r.allows(a) {
		if mem, ok := w.r.at(addr, n); ok && (w.r.parent == nil || w.r.parent.hold()) {
			return &w.r, mem
		}
	}
	w.r.mu.RUnlock()
	return nil, nil
}
