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

// hold is where work requests wait to be overtaken on their way out. With a window of 0 it is a
// queue. What has arrived isn't held back, for its sender has the acknowledgement by then: what is
// sent after that must not overtake it, and fences build on it.
type hold struct {
	window int
	rng    *rand.Rand
	queue  fifo[*txOp]

	items []*txOp
	since []clock.Time // of items, oldest first
	quiet int          // rounds
}

// newHold makes one whose order depends on the seed and on which it is.
func newHold(s Shuffle, which uint64) hold {
	h := hold{window: s.Window}
	if s.Window > 0 {
		h.rng = rand.New(rand.NewPCG(s.Seed, which))
	}
	return h
}

// holding reports whether some are held back.
func (h *hold) holding() bool { return len(h.items) > 0 }

func (h *hold) push(op *txOp, now clock.Time) {
	if h.window == 0 {
		h.queue.push(op)
		return
	}
	h.items, h.since = append(h.items, op), append(h.since, now)
	h.quiet = 0
}

// round begins a round of the engine, before any push.
func (h *hold) round() { h.quiet++ }

// pop takes one that may pass.
func (h *hold) pop(now clock.Time) (op *txOp, ok bool) {
	n := len(h.items)
	switch {
	case h.window == 0:
		return h.queue.pop()
	case n == 0:
		return nil, false
	case n > h.window, h.quiet > quietRounds:
		return h.take(h.rng.IntN(n)), true
	case now.Sub(h.since[0]) >= maxHeld:
		return h.take(0), true
	}
	return nil, false
}

func (h *hold) take(i int) *txOp {
	op := h.items[i]
	h.items, h.since = slices.Delete(h.items, i, i+1), slices.Delete(h.since, i, i+1)
	return op
}
