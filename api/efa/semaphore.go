package efa

import (
	"context"
	"errors"
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

// takeOne takes a place, unless somebody waits or takes one at the same time: then take may.
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

// settle changes how many places are taken, by a number below 0.
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

// budget bounds the bytes that are lent out. Callers that have to wait get them in order.
type budget struct {
	max     int64
	used    atomic.Int64
	waiting atomic.Int64
	mu      sync.Mutex
	line    []*shard.Signal
	closed  bool
}

// take takes n bytes; with n 0 it looks whether any are left. Those who wait come first; next:
// the caller is the first of them.
func (b *budget) take(n int64, next bool) bool {
	if b.waiting.Load() > 0 && !next {
		return false
	}
	for used := b.used.Load(); used+max(n, 1) <= b.max; used = b.used.Load() {
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
	return false
}

// errInstead is the error of a wait of which the caller has something better to do.
var errInstead = errors.New("not needed any more")

// wait is take as soon as that is possible, unless instead is true before: wakeAll has it asked again.
func (b *budget) wait(ctx context.Context, sh *shard.Shard, n int64, instead func() bool) error {
	if b.take(n, false) {
		return nil
	}
	var sig shard.Signal
	b.mu.Lock()
	b.line = append(b.line, &sig)
	b.waiting.Add(1)
	b.mu.Unlock()
	defer b.forget(&sig)
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return ErrClosed
		}
		sig.Reset() // before it looks: what comes back later sets it
		taken := b.line[0] == &sig && b.take(n, true)
		b.mu.Unlock()
		if taken {
			return nil
		}
		if instead() {
			return errInstead
		}
		if err := sh.Wait(ctx, &sig); err != nil {
			return contextError(ctx, err)
		}
	}
}

func (b *budget) forget(sig *shard.Signal) {
	b.mu.Lock()
	b.line = without(b.line, sig)
	b.waiting.Add(-1)
	b.mu.Unlock()
	b.wakeFirst()
}

// give gives n bytes back.
func (b *budget) give(n int64) {
	b.used.Add(-n)
	if b.waiting.Load() > 0 {
		b.wakeFirst()
	}
}

func (b *budget) wakeFirst() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.line) > 0 {
		b.line[0].Set()
	}
}

func (b *budget) wakeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.line {
		s.Set()
	}
}

func (b *budget) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wakeAll()
}

// ctxMutex is a mutex whose lock can be given up: it waits for a context too.
type ctxMutex struct {
	mu      sync.Mutex
	waiting atomic.Int64
	left    chan struct{} // gets a token when the mutex is unlocked while others wait
}

func (t *ctxMutex) init() { t.left = make(chan struct{}, 1) }

func (t *ctxMutex) lock(ctx context.Context) error {
	if t.mu.TryLock() {
		return nil
	}
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	for !t.mu.TryLock() {
		select {
		case <-t.left:
		case <-ctx.Done():
			return contextError(ctx, ctx.Err())
		}
	}
	return nil
}

func (t *ctxMutex) unlock() {
	t.mu.Unlock()
	if t.waiting.Load() > 0 {
		select {
		case t.left <- struct{}{}:
		default: // there is one already
		}
	}
}
