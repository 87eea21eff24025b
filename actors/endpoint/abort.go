package endpoint

import (
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// abortReceive takes a PEER_ERROR by which a peer takes a message back of which the first
// packet was received. It looks for the message among the operations in progress, which is
// slow, but rare.
func abortReceive(env *peer.Env, pools *ope.Pools, pkt *peer.Packet) {
	l := pkt.Link
	if l.UnknownAborts > maxUnknownAborts {
		pkt.Free()
		return
	}
	var found *ope.Rxe
	pools.EachRx(func(r *ope.Rxe) {
		if r.Link() == l && r.MsgID() == pkt.MsgID && r.IsMessage() {
			found = r
		}
	})
	if found == nil { // it was complete
		l.UnknownAborts++
		pkt.Free()
		return
	}
	env.Sh.Tell(found.Ref(), pkt.Deliver())
}

// maxUnknownAborts is the number of a peer's PEER_ERRORs for messages that are not in progress,
// from which on those that name a msg_id are ignored: each costs a search.
const maxUnknownAborts = 1000
