package peer

import (
	"math/bits"
)

// reach is how far ahead of the oldest message that has not begun a window that keeps no order lets others
// begin. What comes from further ahead is kept until the window reaches it.
const reach = 1 << 14

// unordered is the part of a window that keeps no order: messages begin as they come, and
// the window knows which ids have begun, so that a duplicate does not begin another.
type unordered struct {
	on    bool
	bits  []uint64 // by id mod reach, of the ids after the one whose turn it is; nil: none yet
	begun uint32   // of them
}

// KeepNoOrder makes the window keep no order, before anything was placed.
func (w *Window) KeepNoOrder() { w.backlog = &backlog{unordered: unordered{on: true}} }

// Begun reports whether a message has begun before its turn.
func (w *Window) Begun(id uint32) bool {
	return w.kept > 0 && id-w.exp < reach && w.backlog.unordered.has(id)
}

// markBegun notes that a message begins before its turn, unless it has begun already.
func (w *Window) markBegun(id uint32) Verdict {
	l := &w.backlog.unordered
	if l.has(id) {
		return Stale
	}
	if l.bits == nil {
		l.bits = make([]uint64, reach/64)
	}
	l.bits[id%reach/64] |= 1 << (id % 64)
	l.begun++
	w.kept++
	return Unordered
}

// pass reports whether the message whose turn it is has begun, and forgets that.
func (w *Window) pass() bool {
	l := &w.backlog.unordered
	if l.begun == 0 || !l.has(w.exp) {
		return false
	}
	l.bits[w.exp%reach/64] &^= 1 << (w.exp % 64)
	l.begun--
	w.kept--
	return true
}

func (l *unordered) has(id uint32) bool {
	return l.bits != nil && l.bits[id%reach/64]&(1<<(id%64)) != 0
}

// last is how far after exp the latest id is that has begun.
func (l *unordered) last(exp uint32) (far uint32) {
	if l.begun == 0 {
		return 0
	}
	for i, b := range l.bits {
		for ; b != 0; b &= b - 1 {
			id := uint32(i*64 + bits.TrailingZeros64(b))
			far = max(far, (id-exp)%reach)
		}
	}
	return far
}
