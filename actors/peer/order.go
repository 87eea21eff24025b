package peer

import (
	"math/bits"

	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// An operation that waits for earlier ones waits at the head of its peer's line, so those
// after it wait, too. One with a fence waits for all earlier operations of this endpoint with
// the peer, of whatever kind: the peer looks for the oldest of them among the operations in
// progress, and asks that one to say when it is over. Under an order of the endpoint (package
// settings) every operation is counted by its kind, and nobody has to be asked.

// What Turn.need holds beside a feature.
const (
	needFeature = 1<<6 - 1
	needAnswer  = 1 << 6 // the turn is of an answer to the peer, which no fence waits for
	needOrder   = 1 << 7
)

// order is what peers need that have had an operation with a fence or under an order.
type order struct {
	flying [4]int32 // under an order: of each kind, those that have had their turn and are not over
	ask    WhenOver
	asked  bool // ask is with an operation
	waits  bool // the first in the line waits
	begun  int  // operations of several parts, of which some are to begin
}

// Begin says that an operation has begun which has parts that will follow; Begun that all of them
// are over. Operations that wait for earlier ones wait for that.
func (l *Link) Begin() {
	if l.order == nil {
		l.order = new(order)
	}
	l.order.begun++
}

// Begun ends what Begin began.
func (l *Link) Begun() {
	l.order.begun--
	l.order.goOn(l)
}

// WhenOver asks an operation to call Turn.Over when it is over (peer -> txe, rxe).
type WhenOver struct {
	shard.Message
	link *Link
	use  uint32 // of the operation's Member
}

// Concerns reports whether the message is for the present use of the operation with l and m;
// then the operation is to call Asked. If not, that one is over.
func (w *WhenOver) Concerns(l *Link, m *Member) bool {
	if w.link == l && w.use == m.use {
		return true
	}
	w.link.order.heard(w.link)
	return false
}

// Asked notes that the operation is to call Over.
func (t *Turn) Asked() { t.asked = true }

// heard: the operation that was asked is over.
func (o *order) heard(l *Link) {
	o.asked = false
	o.goOn(l)
}

func (o *order) goOn(l *Link) {
	if o.waits {
		o.waits = false
		l.env.Sh.Tell(l.Peer, &lineFree)
	}
}

// Order makes the turn wait for earlier operations: all of them, if it is a fence, and those
// that the endpoint's order names, if kind is not 0. A turn that follows is of a part of an
// operation that has begun, and so comes before all in the line. Order comes after Ask and Need.
func (t *Turn) Order(kind settings.Kinds, fence, follows bool) {
	t.need |= needOrder
	t.kind, t.fence, t.follows = kind, fence, follows
}

// Answers says that the turn is never asked for: the operation answers the peer.
func (t *Turn) Answers() { t.need = needAnswer }

// Over ends what Order and WhenOver began: the operation is over.
func (t *Turn) Over(l *Link) {
	if t.asked {
		t.asked = false
		l.order.heard(l)
	}
	if t.counted {
		t.counted = false
		o := l.order
		o.flying[place(t.kind)]--
		o.goOn(l)
	}
}

func place(k settings.Kinds) int { return bits.TrailingZeros8(uint8(k)) }

// Of makes m the member of an operation of ours, for which a fence waits; nil ends that.
func (m *Member) Of(t *Turn) { m.turn = t }

// demands is the part of the admission that few operations have: it returns what t has to
// wait for, or refused.
func (p *Peer) demands(t *Turn) trail.Reason {
	if f := t.need & needFeature; f > 0 && !p.link.Can(wire.Feature(f-1)) {
		return refused
	}
	if t.need&needOrder == 0 || t.counted {
		return 0
	}
	if p.link.order == nil {
		p.link.order = new(order)
	}
	o := p.link.order
	o.waits = true
	switch {
	case o.begun > 0 && !t.follows:
		return trail.ForArrival
	case t.fence:
		if m := p.link.oldestBefore(t); m != nil {
			if !o.asked {
				o.asked = true
				o.ask.link, o.ask.use = p.link, m.use
				p.env.Sh.Tell(m.Op, &o.ask)
			}
			return trail.ForArrival
		}
	case !t.follows && o.anyOf(p.env.Config.Order.Before(t.kind)): // the first part waited for all
		return trail.ForArrival
	}
	if p.lineHead == nil || p.lineHead == t { // else the one that t passes by still waits
		o.waits = false
	}
	if t.kind != 0 {
		t.counted = true
		o.flying[place(t.kind)]++
	}
	return 0
}

// anyOf reports whether operations of these kinds are under way.
func (o *order) anyOf(k settings.Kinds) bool {
	for i, n := range o.flying {
		if n > 0 && k&(1<<i) != 0 {
			return true
		}
	}
	return false
}

// oldestBefore finds the oldest operation of ours that had its turn before t and is not over.
func (l *Link) oldestBefore(t *Turn) (oldest *Member) {
	for m := l.members; m != nil; m = m.next {
		b := m.turn
		if b != nil && b != t && !b.listed && !b.sent && b.need&needAnswer == 0 {
			oldest = m
		}
	}
	return oldest
}
