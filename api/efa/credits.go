package efa

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/shard"
)

// credits bounds the operations in progress, and lets blocking calls queue for a
// place in order.
type credits struct {
	max     int64
	used    atomic.Int64
	waiting atomic.Int64
	mu      sync.Mutex
	line    []*shard.Signal
	empty   []*shard.Signal // wait for used == 0
	closed  bool
}

func (c *credits) init(n, def int) {
	if n == 0 {
		n = def
	}
	c.max = int64(n)
}

// try takes a place if there is one and nobody waits for it.
func (c *credits) try() bool {
	if c.waiting.Load() > 0 {
		return false
	}
	return c.grab()
}

func (c *credits) grab() bool {
	if c.used.Add(1) > c.max {
		c.used.Add(-1)
		return false
	}
	return true
}

// wait takes a place, in order, as soon as there is one.
func (c *credits) wait(ctx context.Context, sh *shard.Shard) error {
	var sig shard.Signal
	c.mu.Lock()
	c.line = append(c.line, &sig)
	c.waiting.Add(1)
	c.mu.Unlock()
	defer c.forget(&sig)
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return ErrClosed
		}
		if c.line[0] == &sig && c.grab() {
			c.mu.Unlock()
			return nil
		}
		sig.Reset()
		c.mu.Unlock()
		if c.used.Load() < c.max {
			c.wakeFirst()
		}
		if err := sh.Wait(ctx, &sig); err != nil {
			return contextError(ctx, err)
		}
	}
}

func (c *credits) forget(sig *shard.Signal) {
	c.mu.Lock()
	for i, s := range c.line {
		if s == sig {
			c.line = append(c.line[:i], c.line[i+1:]...)
			break
		}
	}
	c.waiting.Add(-1)
	c.mu.Unlock()
	c.wakeFirst()
}

// release gives a place back; on the shard.
func (c *credits) release() {
	c.used.Add(-1)
	if c.waiting.Load() > 0 {
		c.wakeFirst()
	}
}

func (c *credits) wakeFirst() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.line) > 0 {
		c.line[0].Set()
	}
	if c.used.Load() == 0 {
		for _, s := range c.empty {
			s.Set()
		}
	}
}

// idle waits until no place is taken.
func (c *credits) idle(ctx context.Context, sh *shard.Shard) error {
	var sig shard.Signal
	c.mu.Lock()
	c.empty = append(c.empty, &sig)
	c.mu.Unlock()
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	for c.used.Load() > 0 {
		if err := sh.Wait(ctx, &sig); err != nil {
			return contextError(ctx, err)
		}
		sig.Reset()
	}
	return nil
}

func (c *credits) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.line {
		s.Set()
	}
}
