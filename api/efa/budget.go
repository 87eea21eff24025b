package efa

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/shard"
)

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
