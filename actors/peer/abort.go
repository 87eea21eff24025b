package peer

import (
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// onPeerError: the peer gives up an operation that both sides know by an id, or a
// message of which we may have seen nothing (PEER_ERROR; after release 2.6).
func (p *Peer) onPeerError(r *device.RecvPkt) {
	switch p.link.errorForm(len(r.View.Bytes())) {
	case errorNone:
		p.env.Counters.BadType++
		r.Release()
		return
	case errorOther:
		p.onOtherError(r)
		return
	case errorRef:
	}
	pkt := p.read(r)
	if pkt == nil {
		return
	}
	p.env.Counters.PeerErrorsRecv++
	switch pkt.Ref {
	case wire.RefOpe:
		p.deliver(pkt, pkt.RecvID)
	case wire.RefMsgID, wire.RefMsgIDSkip:
		p.skip(pkt)
	default:
		p.env.Counters.BadID++
		pkt.Free()
	}
}

// skip gives a message up by its msg_id: one that has begun ends, one whose turn
// is to come is passed over when it comes.
func (p *Peer) skip(pkt *Packet) {
	if int32(pkt.MsgID-p.window.Expected()) < 0 || p.window.Begun(pkt.MsgID) {
		m := p.multi[pkt.MsgID]
		if pkt.Ref == wire.RefMsgIDSkip && m == nil {
			pkt.Free() // it was seen after all, and whole
			return
		}
		p.tookBack = p.tookBack.add(pkt.MsgID)
		if m != nil {
			delete(p.multi, pkt.MsgID)
			if m.missing = 0; m.packets == 0 {
				p.env.Pool.putMulti(m)
			}
		}
		p.env.Sh.Tell(p.env.Endpoint, pkt.Arrive())
		return
	}
	p.tookBack = p.tookBack.add(pkt.MsgID)
	held := p.window.Held()
	q := p.window.Take(pkt.MsgID)
	p.env.Mem.Early -= int64(held - p.window.Held())
	for q != nil {
		next := q.Next
		q.Next = nil
		q.Free()
		q = next
	}
	if !pkt.Malformed {
		p.env.Counters.Aborted++
	}
	pkt.Aborted = true
	p.place(pkt)
}

// takenBack is the msg_ids of the last messages that the peer took back, of which a
// packet may still come: one without an address handle goes by way of the endpoint, and
// PEER_ERROR may overtake it there.
type takenBack struct {
	ids [16]uint32
	n   int // of them, all that there were
}

// add notes one more, and returns b, which it makes if there is none.
func (b *takenBack) add(id uint32) *takenBack {
	if b == nil {
		b = new(takenBack)
	}
	b.ids[b.n%len(b.ids)] = id
	b.n++
	return b
}

func (b *takenBack) has(id uint32) bool {
	return b != nil && slices.Contains(b.ids[:min(b.n, len(b.ids))], id)
}

// drop drops a packet of a message that is over.
func (b *takenBack) drop(pkt *Packet) {
	c := &pkt.Link.env.Counters
	if b.has(pkt.MsgID) {
		c.AbortedLate++
	} else {
		c.StaleMsgID++
	}
	pkt.Free()
}

// onNacked notes who waits for the replacement of a refused message.
func (p *Peer) onNacked(n *Nacked) {
	if n.Rx.IsZero() || p.link.Err != nil && !p.link.Away {
		delete(p.nacked, n.MsgID)
		return
	}
	if p.nacked == nil {
		p.nacked = make(map[uint32]shard.Ref)
	}
	p.nacked[n.MsgID] = n.Rx
}

// onReplaced: a long-CTS packet in place of a message that we refused to read.
func (p *Peer) onReplaced(pkt *Packet) {
	rx, ok := p.nacked[pkt.MsgID]
	if !ok {
		p.env.Counters.BadID++
		pkt.Free()
		return
	}
	delete(p.nacked, pkt.MsgID)
	p.env.Sh.Tell(rx, pkt.Deliver())
}

// onWritten: the device has carried out a write of the peer's with immediate
// data (§4.6). That is no packet: it neither is answered with HANDSHAKE nor has an
// order.
func (p *Peer) onWritten(w *device.Written) {
	if p.link.Err != nil {
		if !p.link.Away {
			w.Free()
			return
		}
		p.comeBack()
	}
	p.heardFrom()
	x := p.env.Pool.getWrote()
	x.Link, x.Len, x.Data = p.link, w.Len, w.Imm
	w.Free()
	p.env.Sh.Tell(p.env.Endpoint, x)
}

// maxWrongKeys is how many keys a peer may try that name nothing: on most devices
// 32 bits are all that protects memory.
const maxWrongKeys = 16

// WrongKey counts a request of the peer's with a key that names nothing here, and
// fails the peer if there were too many.
func (l *Link) WrongKey() {
	l.env.Counters.RefusedKeys++
	if l.keysWrong++; l.keysWrong == maxWrongKeys && l.Err == nil {
		l.env.Sh.Tell(l.Peer, &Remove{Err: ErrIntruder, Tell: true})
	}
}

// ForgiveKeys allows for refusals that are not the peer's fault: we close memory that
// it may use, and its requests are under way.
func (l *Link) ForgiveKeys() { l.keysWrong = -forgiven }

// forgiven is more than the requests that a peer has under way at a time.
const forgiven = 1024

// onRefused: the device itself refused an RDMA request of the peer's.
func (p *Peer) onRefused(r *device.Refused) {
	if p.link.Err != nil {
		return
	}
	p.env.Counters.Refused++
	p.env.Sh.Tell(p.env.Endpoint, &Intruded{Link: p.link, Key: r.Key})
}
