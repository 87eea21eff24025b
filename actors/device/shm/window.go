package shm

import (
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
)

// maxWindows bounds the memory windows of a queue pair. One is found at the place that the
// low bits of its key name, so keys are drawn until that place is free.
const maxWindows = 1 << 10

// windowEntry is an entry of a segment's table of windows: bytes of a region that
// may be read by a key of their own, through this queue pair. The owner
// writes the key last, and takes it out first; a reader that finds it unchanged after its copy
// has read what was lent.
type windowEntry struct {
	key    atomic.Uint64 // 0: there is none
	region atomic.Uint64 // the key of the region
	addr   atomic.Uint64 // remote address of the first byte
	size   atomic.Uint64
}

// grant is why an RDMA request may use a region.
type grant struct {
	dom    uint64       // it is of this device, and its owner has given the right to all;
	window *windowEntry // or there is a window with this key
	key    uint64
}

// allows reports whether a request may use a region with this header.
func (g *grant) allows(h *regionHeader, a device.Access) bool {
	return h.dom == g.dom && (g.window != nil || h.allows(a))
}

// holds reports whether the window is still there, if the request goes by one.
func (g *grant) holds() bool { return g.window == nil || g.window.key.Load() == g.key }
