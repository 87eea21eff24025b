package efa

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/shard"
)

// semaphore bounds the operations in progress, or the bytes that are lent out: each takes a
// place. Blocking calls wait for places in order.
type semaphore struct {
	max     int64
	used    atomic.Int64
	waiting atomic.Int64 // goroutines in line and in empty
	mu      sync.Mutex
	line    []*shard.Signal // wait for places, in order
	empty   []*shard.Signal // wait until no place is taken or wanted
	closed  bool
}

func (s *semaphore) init(n, def int) { s.max = int64(cmp.Or(n, def)) }

// take takes n places; with n 0 it looks whether any are left. Those who wait come first; next:
// the caller is the first of them. take never takes a place that it must give back: that would
// look like one in use to somebody who then waits for its release.
func (s *semaphore) take(n int64, next bool) bool {
	if s.waiting.Load() > 0 && !next {
		return false
	}
	for used := s.used.Load(); used+max(n, 1) <= s.max; used = s.used.Load() {
		if s.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
	return false
}

// takeSome takes up to n places, if there are some and nobody waits, and returns how many.
func (s *semaphore) takeSome(n int) int {
	for used := s.used.Load(); used < s.max && s.waiting.Load() == 0; used = s.used.Load() {
		got := min(int64(n), s.max-used)
		if s.used.CompareAndSwap(used, used+got) {
			return int(got)
		}
	}
	return 0
}

// takeOne takes a place, unless somebody waits or takes one at the same time: then take may.
func (s *semaphore) takeOne() bool {
	used := s.used.Load()
	return used < s.max && s.waiting.Load() == 0 && s.used.CompareAndSwap(used, used+1)
}

// errInstead is the error of a wait of which the caller has something better to do.
var errInstead = errors.New("not needed any more")

// wait is take as soon as that is possible, in order, unless instead, if it is not nil, is true
// before: wakeAll has it asked again.
func (s *semaphore) wait(ctx context.Context, sh *shard.Shard, n int64, instead func() bool) error {
	if s.take(n, false) {
		return nil
	}
	var sig shard.Signal
	s.mu.Lock()
	s.line = append(s.line, &sig)
	s.waiting.Add(1)
	s.mu.Unlock()
	defer s.forget(&sig)
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return ErrClosed
		}
		sig.Reset() // before it looks: what comes back later sets it
		taken := s.line[0] == &sig && s.take(n, true)
		s.mu.Unlock()
		if taken {
			return nil
		}
		if instead != nil && instead() {
			return errInstead
		}
		if err := sh.Wait(ctx, &sig); err != nil {
			return contextError(ctx, err)
		}
	}
}

func (s *semaphore) forget(sig *shard.Signal) {
	s.mu.Lock()
	s.line = without(s.line, sig)
	s.waiting.Add(-1)
	s.mu.Unlock()
	s.wakeFirst()
}

// without takes an element out of a list, a waiter's signal for instance.
func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// release gives a place back.
func (s *semaphore) release() { s.settle(-1) }

// settle changes how many places are taken, by a number below 0.
func (s *semaphore) settle(change int64) {
	if s.used.Add(change); s.waiting.Load() > 0 {
		s.wakeFirst()
	}
}

func (s *semaphore) wakeFirst() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line) > 0 {
		s.line[0].Set()
	} else if s.used.Load() == 0 {
		setAll(s.empty)
	}
}

func (s *semaphore) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	setAll(s.line)
}

// setAll has all who wait look again.
func setAll(list []*shard.Signal) {
	for _, sig := range list {
		sig.Set()
	}
}

// idle waits until no place is taken and nobody waits for one.
func (s *semaphore) idle(ctx context.Context, sh *shard.Shard) error {
	var sig shard.Signal
	s.mu.Lock()
	s.empty = append(s.empty, &sig)
	s.mu.Unlock()
	s.waiting.Add(1)
	defer func() {
		s.waiting.Add(-1)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.empty = without(s.empty, &sig)
	}()
	for {
		sig.Reset()
		s.mu.Lock()
		busy := s.used.Load() > 0 || len(s.line) > 0
		s.mu.Unlock()
		if !busy {
			return nil
		}
		if err := sh.Wait(ctx, &sig); err != nil {
			return contextError(ctx, err)
		}
	}
}

func (s *semaphore) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wakeAll()
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
