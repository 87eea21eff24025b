package shm

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// ownWindows is the owner's own record of its windows, the only one it relies on.
type ownWindows struct {
	keys [maxWindows]uint64 // 0: the place is free
	draw nic.Keys           // 32 bits, since EFA's requests, which the emulator carries here, have no more
}

// Lend implements nic.Lender.
func (p *port) Lend(lkey uint32, mem []byte) (uint64, error) {
	r, addr := p.dev.regions.HoldSource(lkey, mem)
	if r == nil {
		return 0, device.ErrBadKey
	}
	defer r.Release()
	if p.windows == nil {
		p.windows = new(ownWindows)
	}
	for range keyTries {
		key := p.windows.draw.Draw()
		if key == 0 || p.windows.keys[key%maxWindows] != 0 {
			continue
		}
		w := &p.rx.windows[key%maxWindows]
		_ = p.safely(func() { // a queue pair that is cut is found by Poll
			w.region.Store(r.RKey())
			w.addr.Store(addr)
			w.size.Store(uint64(len(mem)))
			w.key.Store(key)
		}, nil)
		p.windows.keys[key%maxWindows] = key
		return key, nil
	}
	return 0, fmt.Errorf("%w: no free window", device.ErrNoMemory)
}

// Return implements nic.Lender. With the queue pair closed there is nothing to end: its
// segment is.
func (p *port) Return(key uint64) {
	if !p.windows.has(key) {
		return
	}
	p.windows.keys[key%maxWindows] = 0
	if p.seg.mem != nil {
		_ = p.safely(func() { p.rx.windows[key%maxWindows].key.Store(0) }, nil)
	}
}

// has reports whether the key is that of a window.
func (l *ownWindows) has(key uint64) bool {
	return l != nil && key != 0 && l.keys[key%maxWindows] == key
}

// grantOf finds out which region a request is for.
func (l *link) grantOf(wr *device.SendWR) (region uint64, g grant) {
	g.dom = l.dom
	if wr.Kind != device.WRRead || wr.RKey == 0 {
		return wr.RKey, g
	}
	w := &l.windows[wr.RKey%maxWindows]
	if w.key.Load() != wr.RKey {
		return wr.RKey, g
	}
	region, from, size := w.region.Load(), w.addr.Load(), w.size.Load()
	off := wr.Remote - from
	if off > size || uint64(len(wr.Payload)) > size-off {
		return wr.RKey, g
	}
	g.window, g.key = w, wr.RKey
	return region, g
}
