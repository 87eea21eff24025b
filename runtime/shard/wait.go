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

// watchSpin is how long a goroutine that can't run the shard polls its signal
// before it parks: waking it takes about as long.
const watchSpin = 20 * time.Microsecond

// Wait waits for sig. It returns nil once sig is set, the cause of ctx if that
// ended first, and ErrClosed if the shard closed without setting sig. On a manual
// shard the caller runs the shard meanwhile. It doesn't allocate unless it parks.
func (s *Shard) Wait(ctx context.Context, sig *Signal) error {
	switch {
	case sig.IsSet():
		return nil
	case s.waiter != nil:
		return s.waiter.Wait(ctx, s, sig)
	case s.mode == Manual && !s.external:
		return s.waitManual(ctx, sig, false)
	case s.OnShard():
		return s.waitOwner(ctx, sig)
	}
	if s.watch(ctx, sig, false) {
		return nil
	}
	return s.waitParked(ctx, sig)
}

// watch polls sig for a short while, and reports whether it was set. With adopt
// it also ends when the shard is to be had.
func (s *Shard) watch(ctx context.Context, sig *Signal, adopt bool) bool {
	began := clock.System.Now()
	for i := 1; ; i++ {
		if sig.IsSet() {
			return true
		}
		if adopt {
			if s.g.Load() == 0 {
				return false
			}
			if s.wanted.Load() == 0 {
				s.wanted.Store(1)
			}
		}
		if i%16 == 0 && (ctx.Err() != nil || s.closing.Load() || clock.System.Now().Sub(began) > watchSpin) {
			return false
		}
		runtime.Gosched()
	}
}

// waitParked waits for sig without running anything.
func (s *Shard) waitParked(ctx context.Context, sig *Signal) error {
	if !sig.park(s) {
		return nil
	}
	_, err := s.blocked(ctx, sig)
	return err
}

// blocked waits for the token of a parked signal. again means that the token was
// not for the signal but an invitation to run the shard.
func (s *Shard) blocked(ctx context.Context, sig *Signal) (again bool, err error) {
	select {
	case <-sig.ch:
		return !sig.IsSet(), nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.done:
		err = ErrClosed
	}
	if sig.unpark() {
		return false, err
	}
	<-sig.ch
	if sig.IsSet() {
		return false, nil
	}
	// Invited, but leaving: someone else must look after the shard.
	s.left()
	return false, err
}

// waitOwner is Wait for the goroutine that owns the shard by its own Adopt.
func (s *Shard) waitOwner(ctx context.Context, sig *Signal) error {
	if s.turning {
		return ErrInTurn
	}
	for i := 1; ; i++ {
		n := s.Turn()
		switch {
		case sig.IsSet():
			return nil
		case s.closed():
			return ErrClosed
		case i%32 == 0 && ctx.Err() != nil:
			return context.Cause(ctx)
		case n == 0:
			runtime.Gosched()
		}
	}
}
