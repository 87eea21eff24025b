package ope

import "github.com/efactor/efactor/actors/match"

// park takes a message of which a part is here out of the matcher, since its peer has
// failed: what is missing comes if the peer comes back, and nobody is to wait for that.
func (r *Rxe) park() {
	if r.ord != nil {
		return // a receive has matched it, and ends when it sees that the peer has failed
	}
	r.parked = true
	if r.wait != nil {
		r.pools.Unlist(r)
		r.unlisted()
	}
}

// Park does so with a message that has just begun, and is not in the matcher yet.
func (r *Rxe) Park() { r.park() }

// Waits reports whether the message is in the matcher or parked.
func (r *incoming) Waits() bool { return r.busy && r.ord == nil && (r.wait != nil || r.parked) }

// Unpark notes that the message's peer is back, and returns what it is to be matched by.
func (r *incoming) Unpark() (match.Kind, uint64, match.Source) {
	r.parked = false
	return match.KindOf(r.tagged), r.tag, match.Source(r.link.Handle)
}
