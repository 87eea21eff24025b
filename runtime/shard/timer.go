package shard

import (
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// Timer delivers one message at one time. The zero value is ready; it is a field
// of what needs it, belongs to one shard, and starting it allocates nothing. All
// that concerns timers may be called on the shard only.
type Timer struct {
	prev, next *Timer
	tick       uint64
	to         Ref
	msg        Msg
	level      uint8
	slot       uint8
	active     bool
}

// Active reports whether the timer is running.
func (t *Timer) Active() bool { return t.active }

// StartTimer makes t tell m to an actor after d, in place of what it was started
// for before. It is never early, and late by up to a tick of 16.4 us.
func (s *Shard) StartTimer(t *Timer, d time.Duration, to Ref, m Msg) {
	s.wheel.stop(t)
	t.to, t.msg, t.active = to, m, true
	deadline := s.clock.deadline(d)
	s.wheel.insert(t, deadline, s.clock.now)
}

// StopTimer reports whether it stopped t: false means that t was not running, so
// its message may be under way or handled.
func (s *Shard) StopTimer(t *Timer) bool { return s.wheel.stop(t) }

// NextTimer returns when the earliest timer fires: its deadline rounded up to a
// tick. Turning the shard at that time fires it. It reports false if no timer runs.
func (s *Shard) NextTimer() (clock.Time, bool) { return s.wheel.exact() }

// stop takes t out and reports whether it was in.
func (w *wheel) stop(t *Timer) bool {
	if !t.active {
		return false
	}
	w.remove(t)
	t.active, t.msg, t.to = false, nil, Ref{}
	return true
}

// fire tells the messages of all timers that are due and returns how many.
func (w *wheel) fire(now clock.Time, d *delivery) (fired int) {
	for t := w.expire(now); t != nil; fired++ {
		after, to, m := t.next, t.to, t.msg
		t.prev, t.next, t.msg, t.to, t.active = nil, nil, nil, Ref{}, false
		d.tell(to, m)
		t = after
	}
	return fired
}
