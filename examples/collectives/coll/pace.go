package coll

import (
	"errors"

	"github.com/efactor/efactor/api/efa"
)

// A rank that only sends, such as the root of one Bcast after the other, is held up by
// nobody: what goes at once is kept where it arrives until it is asked for. So that it
// does not run ahead of a slow rank until that one's memory is full (PeerMemory of
// efa.ProtocolConfig), each rank counts what it has sent to each other one, and the
// message that is too much is over only when it has been received, as all before it
// have then.
//
// Who hears from a rank in a collective knows that it has received what was sent to it
// in those before, so ranks that exchange messages never wait for this.
const (
	aheadMost = 4 << 20
	aheadEach = 2 << 10 // that a message costs besides its bytes
)

// tooFar counts n bytes that are to go to a rank at once, and tells whether these are
// too many.
func (x *call) tooFar(to, n int) bool {
	return x.ahead[to].Add(int64(n)+aheadEach) > aheadMost
}

// heard notes that a rank has sent something.
func (x *call) heard(from int) {
	if a := &x.ahead[from]; a.Load() != 0 {
		a.Store(0)
	}
}

// paced gives out a short message that is over when it has been received. Our own
// receives go on meanwhile, or two might wait for each other.
func (o *outflow) paced() error {
	op, err := o.x.ep.Start(&efa.SendReq{
		To: o.x.peers[o.to], Buf: o.b, Tagged: true, Tag: o.tag, Level: efa.Delivered, Parent: o.x.parentSpan(),
	})
	switch {
	case errors.Is(err, efa.ErrAgain): // the next one then
		return o.x.eager(o.to, o.tag, o.b)
	case err != nil:
		return &peerError{o.to, err}
	}
	o.ops[0], o.sent, o.catchUp = op, 1, true
	return nil
}
