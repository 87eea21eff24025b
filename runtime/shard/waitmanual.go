package shard

import "context"

// manual waits on a manual shard, which the caller owns already if mine is set.
func (w *wait) manual(mine bool) error {
	s := w.s
	if !mine && s.OnShard() {
		return w.asOwner()
	}
	for {
		switch {
		case !mine && s.closing.Load(): // the helper ends the actors, which may set the signal
			return w.park()
		case mine || s.owner.take():
			if !mine {
				s.clock.spend(adoptCost)
			}
			mine = false
			parked, err := w.drive()
			if !parked {
				return err
			}
		case w.watch(true):
			return nil
		case s.owner.free():
			continue
		case !s.waiters.add(w.sig, s):
			return nil
		default:
			// Ask for the shard, then look once more: an owner that releases the shard
			// looks for waiters after that.
			s.waiters.want()
			if s.owner.free() && w.sig.unpark() {
				s.waiters.remove(w.sig)
				continue
			}
		}
		again, err := w.blocked()
		s.waiters.remove(w.sig)
		if !again {
			return err
		}
	}
}

// drive runs the shard, which the caller has adopted, and gives it up. parked
// means that there was nothing to do, so that the caller is to wait for a token.
func (w *wait) drive() (parked bool, err error) {
	s := w.s
	s.drives++
	w.sig.here = true
	s.idling.reset()
	for i := 1; ; i++ {
		n := s.idling.turn(s)
		switch {
		case w.sig.IsSet():
			w.release()
			return false, nil
		case s.closing.Load():
			w.release()
			return false, w.park()
		case i%32 == 0 && w.ctx.Err() != nil:
			w.release()
			return false, context.Cause(w.ctx)
		case n > 0:
			s.idling.reset()
		case s.idling.longEnough(&s.clock):
			w.sig.here = false // others may take the shard, and set it
			if !s.waiters.add(w.sig, s) {
				s.Release()
				return false, nil
			}
			s.waiters.handed.Store(1)
			s.leave()
			s.sleeper.wakeHelper()
			return true, nil
		default:
			s.idling.relax(&s.clock)
		}
	}
}

// release gives up the shard, which the caller has run.
func (w *wait) release() {
	w.sig.here = false
	w.s.Release()
}
