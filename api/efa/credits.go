package efa

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/shard"
)

// credits bounds the operations in progress, and lets blocking calls queue for a
// place in order.
type credits struct {
	max     int64
	used    atomic.Int64
	waiting atomic.Int64 // goroutines in line and in empty
	mu      sync.Mutex
	line    []*shard.Signal // wait for a place, in order
	empty   []*shard.Signal // wait until no place is taken or wanted
	closed  bool
}

func (c *credits) init(n, def int) {
	if n == 0 {
		n = def
	}
	c.max = int64(n)
}

// take takes up to n places, if there are some, and returns how many. Those who wait for one
// come first; next: the caller is the first of them. take never takes a place that it must
// give back: that would look like one in use to somebody who then waits for its release.
func (c *credits) take(n int, next bool) int {
	if c.waiting.Load() > 0 && !next {
		return 0
	}
	for used := c.used.Load(); used < c.max; used = c.used.Load() {
		got := min(int64(n), c.max-used)
		if c.used.CompareAndSwap(used, used+got) {
			return int(got)
		}
	}
	return 0
}

// takeOne takes a place, unless somebody waits or takes one at the same time: then take may. It
// is short enough to be inlined.
func (c *credits) takeOne() bool {
	used := c.used.Load()
	return used < c.max && c.waiting.Load() == 0 && c.used.CompareAndSwap(used, used+1)
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
		if c.line[0] == &sig && c.take(1, true) > 0 {
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
	c.line = without(c.line, sig)
	c.waiting.Add(-1)
	c.mu.Unlock()
	c.wakeFirst()
}

// without takes a waiter's signal out of a list.
func without(list []*shard.Signal, sig *shard.Signal) []*shard.Signal {
	if i := slices.Index(list, sig); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// release gives a place back.
func (c *credits) release() { c.settle(-1) }

// settle changes how many places are taken, by a number below 0. It is short enough to be
// inlined.
func (c *credits) settle(change int64) {
	if c.used.Add(change); c.waiting.Load() > 0 {
		c.wakeFirst()
	}
}

func (c *credits) wakeFirst() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.line) > 0 {
		c.line[0].Set()
	}
	if c.used.Load() == 0 && len(c.line) == 0 {
		for _, s := range c.empty {
			s.Set()
		}
	}
}

// idle waits until no place is taken and nobody waits for one.
func (c *credits) idle(ctx context.Context, sh *shard.Shard) error {
	var sig shard.Signal
	c.mu.Lock()
	c.empty = append(c.empty, &sig)
	c.mu.Unlock()
	c.waiting.Add(1)
	defer func() {
		c.waiting.Add(-1)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.empty = without(c.empty, &sig)
	}()
	for {
		sig.Reset()
		c.mu.Lock()
		busy := c.used.Load() > 0 || len(c.line) > 0
		c.mu.Unlock()
		if !busy {
			return nil
		}
		if err := sh.Wait(ctx, &sig); err != nil {
			return contextError(ctx, err)
		}
	}
}

func (c *credits) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.line {
		s.Set()
	}
}
