package ope

import "github.com/efactor/efactor/actors/match"

// Park takes a message of which a part is here out of the matcher, since its peer has
// failed: what is missing comes if the peer comes back, and nobody is to wait for that.
func (r *Rxe) Park() {
	if r.ord != nil {
		return // a receive has matched it, and ends when it sees that the peer has failed
	}
	r.parked = true
	if r.wait != nil {
		r.pools.Unlist(r)
		r.unlisted()
	}
}

// Waits reports whether the message is in the matcher or parked.
func (r *Rxe) Waits() bool {
	return r.busy && r.ord == nil && r.m.State < RxAsk && (r.wait != nil || r.parked)
}

// Parked reports whether it is parked.
func (r *Rxe) Parked() bool { return r.parked }

// Unpark notes that the message's peer is back, and returns what it is to be matched by.
func (r *Rxe) Unpark() (match.Kind, uint64, match.Source) {
	r.parked = false
	return match.KindOf(r.says.Tagged), r.says.Tag, match.Source(r.link.Handle)
}
