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
	switch base.Type {
	case wire.TypeHandshake:
		p.onHandshake(r.Data)
		r.Release()
	case wire.TypeCTS, wire.TypeCTSData:
		p.onOperationPacket(r, base.Type)
	case wire.TypeEagerRTW:
		p.onEagerRTW(r)
	default:
		if base.Type.HasMsgID() {
			p.onRTM(r, base.Type)
			return
		}
		c.Unsupported++
		r.Release()
	}
}

// onRTM puts a message into its order (§3.2). Packets of a message of which the
// first packet had its turn go to it directly.
func (p *Peer) onRTM(r *device.RecvPkt, t wire.Type) {
	pkt := p.env.Pool.Get(r, p.link)
	if err := pkt.parseRTM(r.Data, t); err != nil {
		p.env.Counters.bad(err)
		pkt.Free()
		return
	}
	if m := p.multiOf(pkt); m != nil {
		p.continueMulti(m, pkt)
		return
	}
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
		pkt = p.window.Advance()
	}
}

// multiOf returns the message in progress that pkt continues.
func (p *Peer) multiOf(pkt *Packet) *Multi {
	if len(p.multi) == 0 {
		return nil
	}
	return p.multi[pkt.MsgID]
}

// begin hands the first packet of a message to the endpoint, which matches it.
func (p *Peer) begin(pkt *Packet) {
	if !pkt.Type.IsRTM() || !supported(pkt.Type) {
		p.env.Counters.Unsupported++
		pkt.Free()
		return
	}
	if pkt.multi() && uint64(len(pkt.Payload)) < pkt.Length {
		m := p.env.Pool.getMulti()
		m.Total, m.missing = pkt.Length, pkt.Length-uint64(len(pkt.Payload))
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
	if pkt.Length != m.Total || n > m.missing || !pkt.multi() {
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

// onOperationPacket hands CTS to its txe and CTSDATA to its rxe, by the id that
// we gave the peer.
func (p *Peer) onOperationPacket(r *device.RecvPkt, t wire.Type) {
	pkt := p.env.Pool.Get(r, p.link)
	err := pkt.parseOperation(r.Data, t)
	if err != nil {
		p.env.Counters.bad(err)
		pkt.Free()
		return
	}
	op := p.env.Ops.Tx(pkt.SendID)
	if t == wire.TypeCTSData {
		op = p.env.Ops.Rx(pkt.RecvID)
	}
	if op.IsZero() {
		p.env.Counters.BadID++
		pkt.Free()
		return
	}
	p.env.Sh.Tell(op, pkt.Deliver())
}

// onEagerRTW: a write of nothing asks for HANDSHAKE, which was answered already;
// writes of something are not built.
func (p *Peer) onEagerRTW(r *device.RecvPkt) {
	var w wire.EagerRTW
	if n, err := w.Parse(r.Data); err != nil {
		p.env.Counters.bad(err)
	} else if w.RMAIOVCount != 0 || n != len(r.Data) {
		p.env.Counters.Unsupported++
	}
	r.Release()
}

func supported(t wire.Type) bool { return !t.IsDC() && t < wire.TypeLongReadMsgRTM }

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
