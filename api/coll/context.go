package coll

import "sync"

// contexts are the context ids that are free in this process, one bit each.
type contexts struct {
	mu   sync.Mutex
	bits [maxContexts / 64]uint64
}

func (c *contexts) init() {
	for i := range c.bits {
		c.bits[i] = ^uint64(0)
	}
	c.take(rootContext)
	c.take(maxContexts - 1) // tags of its revocations would be the tag of signals
}

// all gives a copy of the bitmap.
func (c *contexts) all(to []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	copy(to, c.bits[:])
}

// take reports whether the id was free; it is no longer.
func (c *contexts) take(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bit := uint64(1) << (id % 64)
	was := c.bits[id/64]&bit != 0
	c.bits[id/64] &^= bit
	return was
}

// free gives an id back.
func (c *contexts) free(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bits[id/64] |= 1 << (id % 64)
}

// pick finds a free id in a bitmap, looking from start on. false: there is none.
func pick(bits []uint64, start uint64) (id uint64, ok bool) {
	for i := range uint64(maxContexts) {
		id = (start + i) % maxContexts
		if bits[id/64]>>(id%64)&1 != 0 {
			return id, true
		}
	}
	return 0, false
}
