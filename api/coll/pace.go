package coll

import (
	"errors"

	"github.com/efactor/efactor/api/efa"
)

// A rank that only sends, such as the root of one Bcast after the other, is not held up:
// messages that are sent at once are kept at the receiver until they are matched. So
// that it does not run ahead of a slow rank until that one's memory is full (PeerMemory
// of efa.ProtocolConfig, for all groups together), each rank of a group counts the bytes
// it has sent to each other one, and the message that exceeds the limit completes only
// when it has been received, as all before it have then.
const (
	aheadMost = 4 << 20
	aheadEach = 2 << 10 // that a message costs besides its bytes
	// mostPaced is how many messages at most wait so, or as frames of a flow for a receiver
	// that need not be there: each keeps one of the endpoint's places for operations, which
	// others need, too. Blocking collectives need one.
	mostPaced = 8
)

// tooFar counts n bytes that are to go to a rank at once, and reports whether these are
// too many. Those of Close are not: their receiver may end its endpoint.
func (x *call) tooFar(to, n int) bool {
	return x.ahead[to].Add(int64(n)+aheadEach) > aheadMost && x.kind != kindClose
}

// heard notes that a rank has sent something, or has received what was paced: it has
// received all that was sent to it in earlier collectives. In later ones, where this is
// not the last that was begun, it need not have.
func (x *call) heard(from int) {
	a := &x.ahead[from]
	if n := a.Load(); n != 0 && x.tag>>seqShift&seqMask == (x.seq.Load()-1)%seqRevoke {
		a.CompareAndSwap(n, 0)
	}
}

// paced gives out a short message that is over when it has been received. Our own
// receives go on meanwhile, or two might wait for each other.
func (o *outflow) paced() error {
	x := o.x
	if !o.reserve(1) { // the next one then
		return x.eager(o.to, o.tag, o.b)
	}
	op, err := x.ep.Start(&efa.SendReq{
		To: x.peers[o.to], Buf: o.b, Tagged: true, Tag: o.tag, Level: efa.Delivered, Parent: x.parentSpan(),
	})
	if err == nil {
		o.ops[0], o.delivered[0], o.sent = op, true, 1
		return nil
	}
	if errors.Is(err, efa.ErrAgain) {
		return x.eager(o.to, o.tag, o.b)
	}
	return &peerError{o.to, err}
}

// reserve takes n of mostPaced until the flow is over; false: there are no more.
func (o *outflow) reserve(n int64) bool {
	if o.x.pacing.Add(n) > mostPaced {
		o.x.pacing.Add(-n)
		return false
	}
	o.places = n
	return true
}
