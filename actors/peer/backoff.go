package peer

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Backoff computes how long to leave a peer alone that has no receive posted
// (RNR): random at first, then twice as long each time, up to a limit.
// Pure.
type Backoff struct {
	Initial, Max time.Duration
	wait         time.Duration
}

// Next is the next interval.
func (b *Backoff) Next(r *rand.Rand) time.Duration {
	switch {
	case b.wait > 0:
		b.wait = min(2*b.wait, b.Max)
	case b.Initial > 0:
		b.wait = min(b.Initial, b.Max)
	default:
		// As libfabric draws it: 40 us at least, below 120.
		b.wait = min(time.Duration(max(40, r.IntN(120)))*time.Microsecond, b.Max)
	}
	return b.wait
}

// Reset forgets the past: a packet that had met RNR got through.
func (b *Backoff) Reset() { b.wait = 0 }

// sortBySeq orders ids by their distance from base, so that wrapped ids come
// last.
func sortBySeq(ids []uint32, base uint32) {
	slices.SortFunc(ids, func(a, b uint32) int { return cmp.Compare(a-base, b-base) })
}
