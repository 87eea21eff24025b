package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// watch measures calls, and notices those that do not return.
type watch struct {
	mu     sync.Mutex
	calls  map[*call]struct{}
	ops    uint64
	worst  time.Duration // of calls among steady processes that are not slow
	what   string        // which
	slow   []slow
	faults []fault
	stalls []span        // when this process was not run
	stall  time.Duration // longest for which this process was not run
	wrongs []string
	more   int // wrongs not kept
}

// call is one that has not returned.
type call struct {
	w      *watch
	what   string
	begun  clock.Time
	bound  time.Duration
	steady bool
	told   bool
}

func newWatch() *watch { return &watch{calls: map[*call]struct{}{}} }

// begin notes a call that has to return within bound, with what its processes are not run for.
func (w *watch) begin(what string, bound time.Duration, steady bool) *call {
	c := &call{w: w, what: what, begun: clock.System.Now(), bound: bound, steady: steady}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[c] = struct{}{}
	return c
}

// end notes its return. Among steady processes an error is wrong.
func (c *call) end(err error) error {
	took := clock.System.Now().Sub(c.begun)
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, c)
	w.ops++
	switch {
	case took > c.bound, c.steady && took > long && len(w.slow) < mostSpans:
		w.slow = append(w.slow, slow{spanTo(c.begun.Add(took), took), c.what, c.bound, c.steady})
	case c.steady && took > w.worst:
		w.worst, w.what = took, c.what
	}
	if c.steady && err != nil {
		w.faultLocked(took, "%s after %v: %v", c.what, took.Round(time.Millisecond), err)
	}
	return err
}

// neverBack is when a call that has not returned is said to have not, beyond twice its bound.
const neverBack = 10 * time.Second

// late says of a call that has not returned for very long that it has not: the conductor shows
// that if the process itself comes to no end.
func (c *call) late(now clock.Time) {
	if took := now.Sub(c.begun); took > 2*c.bound+neverBack && !c.told {
		c.told = true
		_, _ = fmt.Fprintf(os.Stderr, "%s has not returned for %v\n", c.what, took.Round(time.Millisecond))
	}
}

// wrong notes a violation.
func (w *watch) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrongLocked(format, args...)
}

// fault notes an error among steady processes.
func (w *watch) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faultLocked(0, format, args...)
}

// faultLocked notes an error of a call that took so long.
func (w *watch) faultLocked(took time.Duration, format string, args ...any) {
	if len(w.faults) < mostSpans {
		w.faults = append(w.faults, fault{spanTo(clock.System.Now(), took), fmt.Sprintf(format, args...)})
	}
}

func (w *watch) wrongLocked(format string, args ...any) {
	if len(w.wrongs) == 20 {
		w.more++
		return
	}
	w.wrongs = append(w.wrongs, fmt.Sprintf(format, args...))
}

// look finds calls that are late, and how late this goroutine is itself, until ctx ends. It
// says so if it is later than stopped.
func (w *watch) look(ctx context.Context, stopped time.Duration, resumed func(clock.Time)) {
	const every = 20 * time.Millisecond
	for last := clock.System.Now(); pause(ctx, every) == nil; {
		now := clock.System.Now()
		w.mu.Lock()
		stall := now.Sub(last) - every
		w.stall = max(w.stall, stall)
		if stall > noticed && len(w.stalls) < mostSpans {
			w.stalls = append(w.stalls, spanTo(now, stall))
		}
		for c := range w.calls {
			c.late(now)
		}
		w.mu.Unlock()
		if stall > stopped {
			resumed(now)
		}
		last = now
	}
}

// pause waits for d, or the end of ctx, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	t := clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// holdings are what a process must give back.
type holdings struct{ goroutines, descriptors int }

func held() holdings {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return holdings{goroutines: runtime.NumGoroutine()}
	}
	return holdings{runtime.NumGoroutine(), len(dir)}
}

// leaked reports what is held beyond before, once that has had time to end.
func leaked(before holdings) string {
	now := held()
	for range 100 {
		if now.goroutines <= before.goroutines && now.descriptors <= before.descriptors {
			return ""
		}
		_ = pause(context.Background(), 50*time.Millisecond)
		now = held()
	}
	stacks := make([]byte, 8<<10)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return fmt.Sprintf("leaked: %+v before, %+v after Close\n%s", before, now, stacks)
}
