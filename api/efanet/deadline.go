package efanet

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// limit is until when calls of one direction may wait: a deadline that can be moved while they
// do, and the end of the direction. Calls wait with its context; if that ends by errMoved they
// are to go on with the next one.
type limit struct {
	now atomic.Pointer[period]

	mu    sync.Mutex // of those that change it
	ended error
}

type period struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

var errMoved = errors.New("efanet: the deadline was moved")

func newPeriod(t time.Time) *period {
	ctx, cancel := context.WithCancelCause(context.Background())
	if t.IsZero() {
		return &period{ctx, cancel}
	}
	ctx, stop := context.WithDeadlineCause(ctx, t, os.ErrDeadlineExceeded)
	return &period{ctx, func(err error) {
		cancel(err)
		stop()
	}}
}

func (l *limit) init() { l.now.Store(newPeriod(time.Time{})) }

func (l *limit) ctx() context.Context { return l.now.Load().ctx }

// err is why nothing may wait, or even begin, now.
func (l *limit) err() error {
	if ctx := l.ctx(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// set moves the deadline; the zero time is none.
func (l *limit) set(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.change(newPeriod(t))
	}
}

// end makes all calls return err from now on. After net.ErrClosed nothing else counts.
func (l *limit) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.ended, net.ErrClosed) {
		return
	}
	l.ended = err
	p := newPeriod(time.Time{})
	p.cancel(err)
	l.change(p)
}

func (l *limit) change(p *period) { l.now.Swap(p).cancel(errMoved) }

// settle waits until the calls are over that were in progress when their direction ended. Those
// that come later hold mu for a moment and do nothing else.
func settle(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}
