package shard

import (
	"context"
	"time"
)

// A manual shard belongs to whoever waits. The rules:
//
//   - A waiter that can adopt the shard drives it: turns until its signal is set.
//   - One that can't polls its signal, then parks in the list of waiters.
//   - A driver that leaves invites a parked waiter to drive. With none, it rings
//     the helper's bell if the helper sleeps for good.
//   - A driver that finds nothing to do for Spin parks like the others and hands
//     the shard to the helper at once, which sleeps on the descriptors for all.
//   - The helper takes a shard that was neither owned nor driven during one of
//     its naps, which get longer while others drive. It gives way to a waiter
//     within a turn, and owns nothing while it sleeps.

// maxNap bounds the helper's naps, and so the time for which work may lie about. Each
// takes a processor from somebody for 30 us or so, which is much for two processes that
// exchange messages as fast as they can; so a shard that was driven often in the last
// one is left to its drivers for longer. When they stop, work lies about that long once.
const (
	maxNap  = time.Millisecond
	longNap = 8 * time.Millisecond
	often   = 512
)

// waitManual is Wait on a manual shard, which the caller may have adopted already.
func (s *Shard) waitManual(ctx context.Context, sig *Signal, mine bool) error {
	if !mine && s.OnShard() {
		return s.waitOwner(ctx, sig)
	}
	for {
		switch {
		case !mine && s.closing.Load(): // the helper ends the actors, which may set sig
			return s.waitParked(ctx, sig)
		case mine || s.Adopt():
			mine = false
			parked, err := s.drive(ctx, sig)
			if !parked {
				return err
			}
		case s.watch(ctx, sig, true):
			return nil
		case s.g.Load() == 0:
			continue
		case !s.enlist(sig):
			return nil
		default:
			// Say that we want it, then look once more: who releases the shard
			// looks for us after that.
			s.wanted.Store(1)
			if s.g.Load() == 0 && sig.unpark() {
				s.delist(sig)
				continue
			}
		}
		again, err := s.blocked(ctx, sig)
		s.delist(sig)
		if !again {
			return err
		}
	}
}

// drive runs the shard, which the caller has adopted, and gives it up. parked
// means that there was nothing to do, so that the caller is to wait for a token.
func (s *Shard) drive(ctx context.Context, sig *Signal) (parked bool, err error) {
	s.drives++
	s.fuel -= adoptFuel // time has passed since the last owner's reading
	s.idle = 0
	for i := 1; ; i++ {
		n := s.Turn()
		switch {
		case sig.IsSet():
			s.Release()
			return false, nil
		case s.closing.Load():
			s.Release()
			return false, s.waitParked(ctx, sig)
		case i%32 == 0 && ctx.Err() != nil:
			s.Release()
			return false, context.Cause(ctx)
		case n > 0:
			s.idle = 0
		case s.idled():
			if !s.enlist(sig) {
				s.Release()
				return false, nil
			}
			s.handed.Store(1)
			s.yield()
			s.callHelper()
			return true, nil
		default:
			s.relax()
		}
	}
}

// yield frees the shard and does no more about it.
func (s *Shard) yield() {
	s.g.Store(0)
	if s.wanted.Load() != 0 && s.wanted.Swap(0) != 0 {
		s.invite()
	}
}

// left looks after a shard that its driver has left.
func (s *Shard) left() {
	if s.waiting.Load() != 0 && s.invite() {
		return
	}
	if s.parked.Load() != awake {
		s.rouse()
	}
}

// enlist parks sig in the list of waiters. false: it is set.
func (s *Shard) enlist(sig *Signal) bool {
	s.waitMu.Lock()
	defer s.waitMu.Unlock()
	if !sig.park(s) {
		return false
	}
	sig.before, sig.after, sig.listed = s.lastWaiter, nil, true
	if s.lastWaiter == nil {
		s.firstWaiter = sig
	} else {
		s.lastWaiter.after = sig
	}
	s.lastWaiter = sig
	s.waiting.Add(1)
	return true
}

func (s *Shard) delist(sig *Signal) {
	s.waitMu.Lock()
	defer s.waitMu.Unlock()
	s.unlink(sig)
}

// unlink takes sig out of the list, under its mutex.
func (s *Shard) unlink(sig *Signal) {
	if !sig.listed {
		return
	}
	if sig.before == nil {
		s.firstWaiter = sig.after
	} else {
		sig.before.after = sig.after
	}
	if sig.after == nil {
		s.lastWaiter = sig.before
	} else {
		sig.after.before = sig.before
	}
	sig.before, sig.after, sig.listed = nil, nil, false
	s.waiting.Add(-1)
}

// invite wakes the waiter that has been parked longest, to drive the shard.
// false: all whose signal isn't set are awake.
func (s *Shard) invite() bool {
	s.waitMu.Lock()
	defer s.waitMu.Unlock()
	for s.firstWaiter != nil {
		sig := s.firstWaiter
		s.unlink(sig)
		if sig.unpark() {
			sig.token()
			return true
		}
	}
	return false
}
