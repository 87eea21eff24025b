package ope

import (
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/wire"
)

// wants sets what few operations ask of the peer's line: a feature, or that earlier
// operations be over, see peer.Turn.Order.
func (t *Txe) wants() {
	q := t.q
	updates := q.Kind == KindAtomic && q.Form == AtomicWrite
	if q.Flags&Deliver != 0 && (q.Kind == KindSend || updates) && !t.unasked() {
		t.turn.Need(wire.FeatureDeliveryComplete)
	}
	if q.Flags&(Fence|Ordered|Follows) == 0 {
		return
	}
	if q.Flags&Ordered != 0 && updates {
		t.turn.Await = true // for the peer may know no RECEIPT
	}
	t.ext()
	awaits(&t.turn, q)
}

// awaits makes the turn of a request with Fence or Ordered wait for those before it.
func awaits(t *peer.Turn, q *Request) {
	var kind settings.Kinds
	if q.Flags&Ordered != 0 {
		switch q.Kind {
		case KindSend:
			kind = settings.Sends
		case KindWrite:
			kind = settings.Writes
		case KindRead:
			kind = settings.Reads
		default:
			kind = settings.Atomics
		}
	}
	t.Order(kind, q.Flags&Fence != 0, q.Flags&Follows != 0)
}

// inTurn makes what is sent in its turn fit for that: writes and updates under an order end
// when the peer has carried them out, if it can say so. What the device does by itself may
// overtake packets that the peer's device has, but its process has not handled; so a write
// goes by packets, too, if there have been such.
func (t *outgoing) inTurn(f *Facts) {
	q := t.q
	if q.Flags&Ordered != 0 && q.Kind != KindSend && t.link.Can(wire.FeatureDeliveryComplete) {
		q.Flags |= Deliver
		f.Deliver = true
	}
	if unheard(t.pools.env) {
		f.CanWrite = false
	}
}

// unheard reports whether writes or updates have gone out of which only their arrival at a
// device was heard.
func unheard(e *peer.Env) bool {
	c := &e.Counters
	n := &c.PacketsSent
	return n[wire.TypeEagerRTW] > c.Probes || n[wire.TypeLongCTSRTW] > 0 || n[wire.TypeWriteRTA] > 0
}
