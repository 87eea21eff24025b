package efa

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/shard"
)

// Counter counts operations that ended, successes and failures apart (fi_cntr).
// It counts Quiet and injected operations too.
type Counter struct {
	dom        *Domain
	ok, failed atomic.Uint64
	seen       atomic.Uint64 // failures that the application knows of

	waiting atomic.Int64
	mu      sync.Mutex
	waiters []*counterWait
	users   int          // endpoints that count here, once for each direction
	shard   *shard.Shard // of the first that did
}

// CounterError says that operations failed while somebody waited for successes.
type CounterError struct{ OK, Failed uint64 }

// Error gives both values.
func (e *CounterError) Error() string {
	return fmt.Sprintf("efa: wait: %d operations failed, %d succeeded", e.Failed, e.OK)
}

// Value returns the successes and the failures. From then on Wait takes these
// failures as known.
func (c *Counter) Value() (ok, failed uint64) {
	ok, failed = c.ok.Load(), c.failed.Load()
	c.seen.Store(failed)
	return ok, failed
}

// Wait returns when the successes have reached n; with a *CounterError as soon as
// there are failures that neither Value nor an earlier Wait has told of; with
// ErrClosed when all endpoints that count here are closed; or with ctx's error.
// Any number of goroutines may wait.
func (c *Counter) Wait(ctx context.Context, n uint64) error {
	w := &counterWait{want: n, known: c.seen.Load()}
	c.mu.Lock()
	sh := c.shard
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	c.waiting.Add(1)
	defer c.forget(w)
	for {
		w.sig.Reset()
		alive := c.alive()
		ok, failed := c.ok.Load(), c.failed.Load()
		switch {
		case ok >= n:
			return nil
		case failed != w.known:
			c.seen.Store(failed)
			return &CounterError{OK: ok, Failed: failed}
		case sh == nil:
			return callError("wait", fmt.Errorf("%w: no endpoint uses the counter", ErrBadState))
		case !alive:
			return callError("wait", fmt.Errorf("%w: all endpoints of the counter, which is at %d of %d", ErrClosed, ok, n))
		}
		if err := sh.Wait(ctx, &w.sig); err != nil {
			return callError("wait", contextError(ctx, err))
		}
	}
}

type counterWait struct {
	want  uint64
	known uint64 // failures when the wait began
	sig   shard.Signal
}

func (c *Counter) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.users > 0
}

func (c *Counter) forget(w *counterWait) {
	c.waiting.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters = without(c.waiters, w)
}

// Add counts n successes more, as if operations had ended (fi_cntr_add).
func (c *Counter) Add(n uint64) {
	c.ok.Add(n)
	c.notify()
}

// AddFailed counts n failures more (fi_cntr_adderr), of which Wait tells as of those of operations.
func (c *Counter) AddFailed(n uint64) {
	c.failed.Add(n)
	c.notify()
}

// Set makes v the successes (fi_cntr_set). What operations count at the same time is counted
// before or after that.
func (c *Counter) Set(v uint64) {
	c.ok.Store(v)
	c.notify()
}

// SetFailed makes v the failures (fi_cntr_seterr). They are known, as after Value: a Wait
// that is in progress ends with a *CounterError if v is another number than before, a later one only by
// further failures.
func (c *Counter) SetFailed(v uint64) {
	c.seen.Store(v)
	c.failed.Store(v)
	c.notify()
}

// count counts the outcome of an operation.
func (c *Counter) count(err error) {
	if err != nil {
		c.failed.Add(1)
	} else {
		c.ok.Add(1)
	}
	c.notify()
}

func (c *Counter) notify() {
	if c.waiting.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ok, failed := c.ok.Load(), c.failed.Load()
	for _, w := range c.waiters {
		if ok >= w.want || failed != w.known {
			w.sig.Set()
		}
	}
}

// bind notes that an endpoint counts here.
func (c *Counter) bind(sh *shard.Shard) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users++; c.shard == nil {
		c.shard = sh
	}
}

// unbind lets go of an endpoint that was closed. With the last one nothing will
// count any more, so nobody may wait.
func (c *Counter) unbind() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	for _, w := range c.waiters {
		w.sig.Set()
	}
}
