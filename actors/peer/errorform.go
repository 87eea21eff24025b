package peer

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// errorForm is which PEER_ERROR a peer sends. Between 2.6 and the next release upstream has
// changed its fields more than once under the same packet type and feature, so that only the
// length tells them apart.
type errorForm uint8

const (
	errorNone  errorForm = iota // until 2.6: no such packet
	errorRef                    // main of August 2026: 20 bytes, wire.PeerError
	errorOther                  // a later one: its ids would be taken for others
)

// errorForm is the form of a PEER_ERROR of n bytes that the peer has sent.
func (l *Link) errorForm(n int) errorForm {
	switch {
	case l.Known() && !l.Can(wire.FeaturePeerError) && !l.otherErrors:
		return errorNone
	case n <= wire.PeerErrorLen: // a shorter one is none
		return errorRef
	default:
		return errorOther
	}
}

// onOtherError: the peer has given up something, and it cannot be known what. So all
// operations with it end, and it gets no PEER_ERROR from here, which it would not understand.
func (p *Peer) onOtherError(r *device.RecvPkt) {
	l := p.link
	p.env.Counters.BadLength++
	l.otherErrors = true
	l.Features.Clear(wire.FeaturePeerError)
	p.env.Sh.Tell(l.Peer, &Remove{
		Tell: true,
		Err:  fmt.Errorf("%w: it sent a PEER_ERROR of %d bytes, a form that is not known", ErrPeerFailed, len(r.View.Bytes())),
	})
	r.Release()
}
