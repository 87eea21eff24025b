package engine

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

const (
	// maxHeld is for how long a packet is held back at most: little to a program
	// that waits for it, and long enough to be overtaken.
	maxHeld = 500 * time.Microsecond
	// quietRounds without a new packet let the others go: nothing comes that
	// could overtake them, and time may stand still.
	quietRounds = 3
)

// hold is where packets wait to be overtaken, in one direction of a queue pair.
// With a window of 0 it is a queue.
type hold[T any] struct {
	window int
	rng    *rand.Rand
	queue  fifo[T]

	items []T
	since []clock.Time // of items, oldest first
	quiet int          // rounds
}

// newHold makes one whose order depends on the seed and on which it is.
func newHold[T any](s Shuffle, which uint64) hold[T] {
	h := hold[T]{window: s.Window}
	if s.Window > 0 {
		h.rng = rand.New(rand.NewPCG(s.Seed, which))
	}
	return h
}

// holding reports whether some are held back.
func (h *hold[T]) holding() bool { return len(h.items) > 0 }

func (h *hold[T]) push(v T, now clock.Time) {
	if h.window == 0 {
		h.queue.push(v)
		return
	}
	h.items, h.since = append(h.items, v), append(h.since, now)
	h.quiet = 0
}

// round begins a round of the engine, before any push.
func (h *hold[T]) round() { h.quiet++ }

// pop takes one that may pass.
func (h *hold[T]) pop(now clock.Time) (v T, ok bool) {
	n := len(h.items)
	switch {
	case h.window == 0:
		return h.queue.pop()
	case n == 0:
		return v, false
	case n > h.window, h.quiet > quietRounds:
		return h.take(h.rng.IntN(n)), true
	case now.Sub(h.since[0]) >= maxHeld:
		return h.take(0), true
	}
	return v, false
}

// popAny takes the oldest.
func (h *hold[T]) popAny() (v T, ok bool) {
	if len(h.items) > 0 {
		return h.take(0), true
	}
	return h.queue.pop()
}

func (h *hold[T]) take(i int) T {
	v := h.items[i]
	h.items, h.since = slices.Delete(h.items, i, i+1), slices.Delete(h.since, i, i+1)
	return v
}
