package efa

import (
	"context"
	"sync"
	"sync/atomic"
)

// turnstile lets one goroutine through at a time; unlike at a mutex the others
// wait for their context too.
type turnstile struct {
	mu      sync.Mutex
	waiting atomic.Int64
	left    chan struct{} // somebody left while others waited
}

func (t *turnstile) init() { t.left = make(chan struct{}, 1) }

func (t *turnstile) enter(ctx context.Context) error {
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

func (t *turnstile) leave() {
	t.mu.Unlock()
	if t.waiting.Load() > 0 {
		select {
		case t.left <- struct{}{}:
		default: // the others have been told
		}
	}
}
