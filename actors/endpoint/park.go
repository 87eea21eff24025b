package endpoint

import (
	"slices"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// waiting lists a peer's messages that wait for a receive, or are parked, in their order.
func waiting(p *ope.Pools, l *peer.Link) []*ope.Rxe {
	var list []*ope.Rxe
	p.EachRx(func(r *ope.Rxe) {
		if r.Link() == l && r.Waits() {
			list = append(list, r)
		}
	})
	slices.SortFunc(list, func(a, b *ope.Rxe) int { return int(int32(a.MsgID() - b.MsgID())) })
	return list
}

// park takes out of the matcher what comes after a message that is parked itself: its peer
// has failed, and if it comes back they are to be received in their order.
func (e *Endpoint) park(l *peer.Link) {
	behind := false
	for _, r := range waiting(e.pools, l) {
		if behind = behind || r.Parked(); behind {
			r.Park()
		}
	}
}

// anyParked reports whether a message of the peer's is parked.
func anyParked(p *ope.Pools, l *peer.Link) bool {
	return slices.ContainsFunc(waiting(p, l), (*ope.Rxe).Parked)
}

// unpark puts what was parked into the matcher again: its peer is back, or never comes back
// and these are whole. A receive that was posted since may take one.
func (e *Endpoint) unpark(l *peer.Link) {
	for _, r := range waiting(e.pools, l) {
		if !r.Parked() {
			continue
		}
		kind, tag, from := r.Unpark()
		o := e.table.Arrive(kind, tag, from)
		taken := o != nil && e.many.give(r, e.pools.Orders.At(o.Owner), nil)
		if !taken && (e.seat == nil || !e.seat.take(r, kind, tag)) {
			e.table.AddMsg(r.List())
		}
	}
	e.claims.awaited.offer(&e.claims)
}
