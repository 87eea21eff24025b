package peer

import (
	"errors"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// onArrived takes a packet from the device: whose is it, what is it, whose turn
// is it. Nothing that a peer sends may do more than end its own operations.
func (p *Peer) onArrived(r *device.RecvPkt) {
	c := &p.env.Counters
	base, err := wire.ParseBase(r.Data)
	if err != nil {
		c.bad(err)
		r.Release()
		return
	}
	if id, ok := wire.ConnIDOf(r.Data); ok && id != p.link.QKey {
		p.env.Sh.Tell(p.env.Endpoint, &Stranger{Pkt: r, Link: p.link})
		return
	}
	if p.link.Err != nil {
		c.PeerDown++
		r.Release()
		return
	}
	c.PacketsRecv[base.Type]++
	p.heardFrom()
	p.answer()
	switch {
	case base.Type == wire.TypeHandshake:
		p.onHandshake(r.Data)
		r.Release()
	case base.Type == wire.TypePeerError:
		p.onPeerError(r)
	case base.Type.HasMsgID():
		p.onOrdered(r, base.Type)
	case base.Type.IsREQ():
		p.onAccess(r, base.Type)
	default:
		p.onAnswer(r, base.Type)
	}
}

// read parses a packet; nil: it was dropped.
func (p *Peer) read(r *device.RecvPkt, t wire.Type) *Packet {
	pkt := p.env.Pool.Get(r, p.link)
	if err := pkt.parse(r.Data, t); err != nil {
		p.env.Counters.bad(err)
		pkt.Free()
		return nil
	}
	return pkt
}

// onOrdered puts a message or atomic into its order (§3.2). Packets of a message
// of which the first packet had its turn go to it directly, and so does the
// long-CTS packet that takes the place of a refused read-based one (§4.7).
func (p *Peer) onOrdered(r *device.RecvPkt, t wire.Type) {
	pkt := p.read(r, t)
	if pkt == nil {
		return
	}
	if pkt.Nack {
		p.onReplaced(pkt)
		return
	}
	if m := p.multiOf(pkt); m != nil {
		p.continueMulti(m, pkt)
		return
	}
	p.place(pkt)
}

// place processes a packet if it is its turn, and keeps it if that is to come.
func (p *Peer) place(pkt *Packet) {
	switch p.window.Place(pkt) {
	case InOrder:
		p.inOrder(pkt)
	case Stale:
		p.env.Counters.StaleMsgID++
		pkt.Free()
	case Overflowed:
		p.env.Counters.Overflow++
		p.keep(pkt)
	case Held:
		p.keep(pkt)
	}
}

// keep copies a packet that came too early out of its receive slot.
func (p *Peer) keep(pkt *Packet) {
	p.env.Counters.OutOfOrder++
	p.env.Mem.Early++
	if !pkt.Own() {
		p.overMemory()
	}
}

func (p *Peer) overMemory() {
	p.env.Counters.PeerOverMemory++
	p.fail(ErrHoard, true)
}

// inOrder processes the packet whose turn it is and those that had waited for it.
func (p *Peer) inOrder(pkt *Packet) {
	for pkt != nil {
		for first := true; pkt != nil; first = false {
			next := pkt.Next
			pkt.Next = nil
			if m := p.multiOf(pkt); m != nil {
				p.continueMulti(m, pkt)
			} else if first {
				p.begin(pkt)
			} else { // its message is complete without it
				p.env.Counters.StaleMsgID++
				pkt.Free()
			}
			pkt = next
		}
		held := p.window.Held()
		pkt = p.window.Advance()
		p.env.Mem.Early -= int64(held - p.window.Held())
	}
}

// multiOf returns the message in progress that pkt continues.
func (p *Peer) multiOf(pkt *Packet) *Multi {
	if len(p.multi) == 0 {
		return nil
	}
	return p.multi[pkt.MsgID]
}

// begin hands the first packet of a message, or an atomic, to the endpoint, which
// matches or executes it.
func (p *Peer) begin(pkt *Packet) {
	if pkt.Aborted {
		pkt.Free()
		return
	}
	if n := uint64(len(pkt.Payload)); pkt.multi() && n < pkt.span() {
		m := p.env.Pool.getMulti()
		m.Total, m.span, m.missing = pkt.Length, pkt.span(), pkt.span()-n
		m.packets++
		pkt.Multi = m
		if p.multi == nil {
			p.multi = make(map[uint32]*Multi)
		}
		p.multi[pkt.MsgID] = m
	}
	p.env.Sh.Tell(p.env.Endpoint, pkt.Arrive())
}

// continueMulti passes on a further packet of a message, by way of the endpoint
// if that has not dealt with the first one yet.
func (p *Peer) continueMulti(m *Multi, pkt *Packet) {
	n := uint64(len(pkt.Payload))
	if pkt.Length != m.Total || pkt.span() != m.span || n > m.missing || !pkt.multi() {
		p.env.Counters.BadLength++
		pkt.Free()
		return
	}
	m.packets++
	pkt.Multi = m
	if m.missing -= n; m.missing == 0 {
		delete(p.multi, pkt.MsgID)
	}
	if m.Rx.IsZero() {
		p.env.Sh.Tell(p.env.Endpoint, pkt.Arrive())
		return
	}
	p.env.Sh.Tell(m.Rx, pkt.Deliver())
}

// onAnswer hands a packet to the operation that it names, by the id that we gave
// the peer.
func (p *Peer) onAnswer(r *device.RecvPkt, t wire.Type) {
	pkt := p.read(r, t)
	if pkt == nil {
		return
	}
	id := pkt.SendID
	if t == wire.TypeCTSData || t == wire.TypeREADRSP || t == wire.TypeATOMRSP {
		id = pkt.RecvID
	}
	p.deliver(pkt, id)
}

func (p *Peer) deliver(pkt *Packet, id uint32) {
	op := p.env.Ops.Find(id)
	if op.IsZero() {
		p.env.Counters.BadID++
		pkt.Free()
		return
	}
	p.env.Sh.Tell(op, pkt.Deliver())
}

// onAccess hands a request to write or read to the endpoint; these are in no order
// (§3.3). A write of nothing to nowhere asks for HANDSHAKE, which was answered
// already.
func (p *Peer) onAccess(r *device.RecvPkt, t wire.Type) {
	pkt := p.read(r, t)
	if pkt == nil {
		return
	}
	if pkt.Ext.NRMA == 0 && t == wire.TypeEagerRTW && pkt.Length == 0 && !pkt.HasData {
		pkt.Free()
		return
	}
	p.env.Sh.Tell(p.env.Endpoint, pkt.Arrive())
}

func (c *Counters) bad(err error) {
	switch {
	case errors.Is(err, wire.ErrVersion):
		c.BadVersion++
	case errors.Is(err, wire.ErrType), errors.Is(err, wire.ErrNotSupported):
		c.BadType++
	case errors.Is(err, wire.ErrShort):
		c.BadShort++
	default:
		c.BadLength++
	}
}
