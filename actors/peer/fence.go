package peer

import (
	"math/bits"

	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/runtime/shard"
)

// An operation with a fence waits until all earlier ones to its peer are over (FI_FENCE), one under
// an order until those of some kinds are. Peer.demands, in admit.go, asks for it.

// fences is the state of a peer that has had an operation with a fence or under an order.
type fences struct {
	flying [4]int32 // under an order: of each kind, those that have had their turn and are not over
	ask    WhenOver
	asked  bool // ask is with an operation
	waits  bool // the first in the line waits
	begun  int  // operations of several parts, of which some are to begin
}

// asksNext notes that the operation that was asked is over: another one may be.
func (o *fences) asksNext(l *Link) {
	o.asked = false
	o.openLine(l)
}

func (o *fences) openLine(l *Link) {
	if o.waits {
		o.waits = false
		l.env.Sh.Tell(l.Peer, &lineFree)
	}
}

// anyOf reports whether operations of these kinds are under way.
func (o *fences) anyOf(k settings.Kinds) bool {
	for i, n := range o.flying {
		if n > 0 && k&(1<<i) != 0 {
			return true
		}
	}
	return false
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
	w.link.fences.asksNext(w.link)
	return false
}

// Asked notes that the operation is to call Over.
func (t *Turn) Asked() { t.asked = true }

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
		l.fences.asksNext(l)
	}
	if t.counted {
		t.counted = false
		o := l.fences
		o.flying[kindIndex(t.kind)]--
		o.openLine(l)
	}
}

func kindIndex(k settings.Kinds) int { return bits.TrailingZeros8(uint8(k)) }

// Of makes m the member of an operation of ours, for which a fence waits; nil ends that.
func (m *Member) Of(t *Turn) { m.turn = t }

// An operation that waits for earlier ones waits at the head of its peer's line, so those
// after it wait, too. One with a fence waits for all earlier operations of this endpoint with
// the peer, of whatever kind: the peer looks for the oldest of them among the operations in
// progress, and asks that one to say when it is over. Under an order of the endpoint (package
// settings) every operation is counted by its kind, and no operation has to be asked.

// What Turn.need holds beside a feature.
const (
	needFeature = 1<<6 - 1
	needAnswer  = 1 << 6 // the turn is of an answer to the peer, which no fence waits for
	needOrder   = 1 << 7
)
