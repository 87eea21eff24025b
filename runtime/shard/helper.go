package shard

import (
	"runtime"
	"time"
)

// maxInterval bounds the time between two looks of the helper at a shard that others
// drive, and so the time for which work may be left undone. Each look takes a processor
// from somebody for some 30 us, which is much for two processes that exchange messages
// as fast as they can; so a shard that was driven manyDrives times since the last look
// is left to its drivers for up to longInterval. When they stop, work is left undone
// for that long once.
const (
	maxInterval  = time.Millisecond
	longInterval = 8 * time.Millisecond
	manyDrives   = 512
)

// helper is the goroutine that looks after a lent shard when no other does. Its fields are
// its own.
type helper struct {
	s        *Shard
	seen     uint64        // Shard.drives at the last look
	interval time.Duration // until the next look
	most     time.Duration // bound of interval
}

func (h *helper) run() {
	s := h.s
	h.interval, h.most = s.grace, max(maxInterval, s.grace)
	for {
		if s.owner.take() {
			if s.closing.Load() {
				s.life.shutdown()
				return
			}
			h.look()
			if s.closing.Load() {
				continue
			}
		}
		s.sleeper.standBy(h.interval)
		h.interval = min(2*h.interval, h.most)
	}
}

// look serves the shard if it was left to the helper or not driven since the last look,
// and leaves it to its drivers otherwise. The caller owns the shard; look gives it up.
func (h *helper) look() {
	s := h.s
	if h.most = max(maxInterval, s.grace); s.drives-h.seen >= manyDrives {
		h.most = max(longInterval, s.grace)
	}
	handed := s.waiters.handed.Swap(0) != 0
	if handed || s.drives == h.seen {
		h.interval = s.grace
		h.serve()
		return
	}
	h.seen, h.interval = s.drives, min(h.interval, h.most)
	s.clock.expire() // so the time that drivers see is no older than an interval
	s.leave()
}

// serve runs the shard until another goroutine may want it.
func (h *helper) serve() {
	s := h.s
	s.idling.reset()
	s.clock.expire()
	s.woke = false
	for {
		h.seen = s.drives
		n := s.idling.turn(s)
		switch {
		case s.closing.Load():
			s.leave()
			return
		case s.woke || s.waiters.wanted.Load() != 0:
			// Let them run on this processor, now.
			s.leave()
			runtime.Gosched()
			return
		case n > 0:
			s.idling.reset()
		case !s.idling.longEnough(&s.clock):
			h.relax()
		case !s.sleeper.sleep(true):
			return
		case s.drives != h.seen && s.waiters.handed.Swap(0) == 0:
			// Driven during the sleep, and left: perhaps only for a moment.
			h.seen = s.drives
			s.leave()
			return
		}
	}
}

func (h *helper) relax() {
	if h.s.mode == Pinned {
		h.s.idling.relaxPinned(&h.s.clock)
	} else {
		h.s.idling.relax(&h.s.clock)
	}
}
