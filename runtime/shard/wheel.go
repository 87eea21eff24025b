package shard

import (
	"math"
	"math/bits"
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

// A hierarchical timing wheel (Varghese and Lauck, scheme 7): level 0 has one
// slot a tick, each further level slots 64 times as wide. A timer lies on the
// level of the highest group of 6 bits in which its tick differs from the
// current one; so all of level n is due before anything on level n+1, slots of a
// level are due in order of index, and timers of one tick fire in the order in
// which they were started.
const (
	tickShift   = 14 // a tick is 16.4 us
	slotBits    = 6
	wheelSlots  = 1 << slotBits
	wheelLevels = 9 // 6*9 bits of ticks: all of clock.Time
	never       = clock.Time(math.MaxInt64)
)

// slot is a list of timers.
type slot struct{ first, last *Timer }

// wheel holds the timers that run. Owner only.
type wheel struct {
	next   clock.Time // nothing is due before this
	cur    uint64     // tick up to which all has fired
	count  int
	occ    [wheelLevels]uint64 // bit per slot that holds timers
	levels [wheelLevels][wheelSlots]slot
}

// tickAt returns the first tick not before t.
func tickAt(t clock.Time) uint64 {
	if t <= 0 {
		return 0
	}
	return (uint64(t) + 1<<tickShift - 1) >> tickShift
}

// timeOf returns the time of a tick, or never.
func timeOf(tick uint64) clock.Time {
	if tick > math.MaxInt64>>tickShift {
		return never
	}
	return clock.Time(tick << tickShift)
}

// insert files t, which is due at deadline or, if that has passed, at the next tick.
// now is the present time.
func (w *wheel) insert(t *Timer, deadline, now clock.Time) {
	if w.count == 0 {
		w.cur = max(w.cur, uint64(max(now, 0))>>tickShift)
		w.next = never
	}
	w.count++
	t.tick = max(tickAt(deadline), w.cur+1)
	w.file(t)
	w.next = min(w.next, timeOf(w.slotStart(t.level, t.slot)))
}

// file puts t into the slot that its tick has as seen from cur.
func (w *wheel) file(t *Timer) {
	level := 0
	if diff := t.tick ^ w.cur; diff != 0 {
		level = (bits.Len64(diff) - 1) / slotBits
	}
	index := t.tick >> (slotBits * level) & (wheelSlots - 1)
	t.level, t.slot = uint8(level), uint8(index)
	sl := &w.levels[level][index]
	t.prev, t.next = sl.last, nil
	if sl.last == nil {
		sl.first = t
	} else {
		sl.last.next = t
	}
	sl.last = t
	w.occ[level] |= 1 << index
}

// remove takes t out. next may stay too early, which costs one needless
// call of expire.
func (w *wheel) remove(t *Timer) {
	sl := &w.levels[t.level][t.slot]
	if t.prev == nil {
		sl.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		sl.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	if sl.first == nil {
		w.occ[t.level] &^= 1 << t.slot
	}
	t.prev, t.next = nil, nil
	w.count--
	if w.count == 0 {
		w.next = never
	}
}

// earliest returns the occupied slot that is due first. Precondition: count > 0.
func (w *wheel) earliest() (level, index uint8) {
	for l := range w.occ {
		if w.occ[l] != 0 {
			return uint8(l), uint8(bits.TrailingZeros64(w.occ[l]))
		}
	}
	panic("shard: a wheel that counts timers but holds none")
}

// slotStart is the first tick of a slot, which shares the bits above its level
// with cur.
func (w *wheel) slotStart(level, index uint8) uint64 {
	shift := slotBits * uint(level)
	above := w.cur >> (shift + slotBits) << (shift + slotBits)
	return above | uint64(index)<<shift
}

// expire moves the wheel to now and returns the timers that are due as a list
// linked by next, in order.
func (w *wheel) expire(now clock.Time) (due *Timer) {
	target := uint64(max(now, 0)) >> tickShift
	var last *Timer
	for w.count > 0 {
		level, index := w.earliest()
		start := w.slotStart(level, index)
		if start > target {
			break
		}
		w.cur = start
		sl := &w.levels[level][index]
		list := sl.first
		*sl = slot{}
		w.occ[level] &^= 1 << index
		if level > 0 {
			for t := list; t != nil; {
				after := t.next
				w.file(t)
				t = after
			}
			continue
		}
		if last == nil {
			due = list
		} else {
			last.next = list
		}
		for t := list; t != nil; t = t.next {
			last = t
			w.count--
		}
	}
	w.cur = max(w.cur, target)
	w.next = never
	if w.count > 0 {
		w.next = timeOf(w.slotStart(w.earliest()))
	}
	return due
}

// exact returns the tick of the timer that is due first, as a time.
func (w *wheel) exact() (clock.Time, bool) {
	if w.count == 0 {
		return 0, false
	}
	level, index := w.earliest()
	tick := uint64(math.MaxUint64)
	for t := w.levels[level][index].first; t != nil; t = t.next {
		tick = min(tick, t.tick)
	}
	return timeOf(tick), true
}
