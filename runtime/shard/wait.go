package shard

import (
	"context"
	"runtime"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// Waiter waits for a signal in place of the built-in way: a simulation's runs
// other coroutines until it is set. It returns nil when sig is set, the context's
// cause, or ErrClosed.
type Waiter interface {
	Wait(ctx context.Context, s *Shard, sig *Signal) error
}

// watchSpin is how long a goroutine that cannot run the shard polls its signal
// before it parks: waking it takes about as long.
const watchSpin = 20 * time.Microsecond

// Wait waits for sig. It returns nil once sig is set, the cause of ctx if that
// ended first, and ErrClosed if the shard closed without setting sig. On a manual
// shard, and a pinned one that is lent, the caller runs the shard meanwhile. It does not allocate unless it parks.
func (s *Shard) Wait(ctx context.Context, sig *Signal) error {
	w := wait{s, ctx, sig}
	switch {
	case sig.IsSet():
		return nil
	case s.waiter != nil:
		return s.waiter.Wait(ctx, s, sig)
	case s.lent:
		return w.manual(false)
	case s.OnShard():
		return w.asOwner()
	}
	if w.watch(false) {
		return nil
	}
	return w.park()
}

// wait is one call of Wait. It lives on the stack of the goroutine that waits.
type wait struct {
	s   *Shard
	ctx context.Context
	sig *Signal
}

// watch polls the signal for a short while, and reports whether it was set. With adopt
// it also ends when the shard has no owner.
func (w *wait) watch(adopt bool) bool {
	s := w.s
	began := clock.System.Now()
	for i := 1; ; i++ {
		if w.sig.IsSet() {
			return true
		}
		if adopt {
			if s.owner.free() {
				return false
			}
			if s.waiters.wanted.Load() == 0 {
				s.waiters.want()
			}
		}
		if i%16 == 0 && (w.ctx.Err() != nil || s.closing.Load() || clock.System.Now().Sub(began) > watchSpin) {
			return false
		}
		runtime.Gosched()
	}
}

// park waits for the signal without running anything.
func (w *wait) park() error {
	if !w.sig.park(w.s) {
		return nil
	}
	_, err := w.blocked()
	return err
}

// blocked waits for the token of a parked signal. again means that the token was
// not for the signal: the shard is to be driven.
func (w *wait) blocked() (again bool, err error) {
	select {
	case <-w.sig.ch:
		return !w.sig.IsSet(), nil
	case <-w.ctx.Done():
		err = context.Cause(w.ctx)
	case <-w.s.life.done:
		err = ErrClosed
	}
	if w.sig.unpark() {
		return false, err
	}
	<-w.sig.ch
	if w.sig.IsSet() {
		return false, nil
	}
	// The token was for driving the shard, but this goroutine leaves.
	w.s.handOver()
	return false, err
}

// asOwner waits in the goroutine that owns the shard by its own Adopt.
func (w *wait) asOwner() error {
	s := w.s
	if s.sched.inTurn() {
		return ErrInTurn
	}
	for i := 1; ; i++ {
		n := s.Turn()
		switch {
		case w.sig.IsSet():
			return nil
		case s.parking.isClosed():
			return ErrClosed
		case i%32 == 0 && w.ctx.Err() != nil:
			return context.Cause(w.ctx)
		case n == 0:
			runtime.Gosched()
		}
	}
}
