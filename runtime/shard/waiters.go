package shard

import (
	"sync"
	"sync/atomic"
)

// waiters are the goroutines that wait on a manual shard. Any goroutine may use it;
// the list is under mu.
type waiters struct {
	wanted atomic.Uint32 // 1: a waiter asks the owner to make way
	handed atomic.Uint32 // 1: a waiter left the shard to the helper, for want of work
	parked atomic.Uint32 // length of the list

	mu          sync.Mutex
	first, last *Signal
}

// want asks the owner to make way.
func (w *waiters) want() { w.wanted.Store(1) }

// takeWant reports whether a waiter asked for the shard, and forgets that.
func (w *waiters) takeWant() bool { return w.wanted.Load() != 0 && w.wanted.Swap(0) != 0 }

// add parks g at the end of the list. It reports false if g is set.
func (w *waiters) add(g *Signal, s *Shard) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !g.park(s) {
		return false
	}
	g.before, g.after, g.listed = w.last, nil, true
	if w.last == nil {
		w.first = g
	} else {
		w.last.after = g
	}
	w.last = g
	w.parked.Add(1)
	return true
}

// remove takes g out of the list if it is there.
func (w *waiters) remove(g *Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unlink(g)
}

// unlink is remove under the mutex.
func (w *waiters) unlink(g *Signal) {
	if !g.listed {
		return
	}
	if g.before == nil {
		w.first = g.after
	} else {
		g.before.after = g.after
	}
	if g.after == nil {
		w.last = g.before
	} else {
		g.after.before = g.before
	}
	g.before, g.after, g.listed = nil, nil, false
	w.parked.Add(^uint32(0))
}

// wakeOne wakes the waiter that has been parked longest, to drive the shard. It
// reports false if no waiter is parked whose signal is not set.
func (w *waiters) wakeOne() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.first != nil {
		g := w.first
		w.unlink(g)
		if g.unpark() {
			g.token()
			return true
		}
	}
	return false
}
