package peer

// How a message is received, from the device to the outcome:
//
//  1. actors/device/poll.go: the queue takes a completion and calls the peer that sent it.
//  2. actors/peer/recv.go: the peer parses the packet and puts the message into its order.
//  3. actors/endpoint/match.go: the endpoint gives the message an rxe and matches it.
//  4. actors/ope/rxe.go: the rxe begins, and has the receive, or keeps the data without one.
//  5. actors/ope/rxe_data.go: onWhole copies a message that is whole and gives the outcome to the sink, in one step.

import (
	"errors"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// Deliver has the peer handle a packet of its. Precondition: the caller has entered the peer.
func (l *Link) Deliver(r *device.RecvPkt) { l.of.onArrived(r) }

// onArrived takes a packet from the device: whose is it, what is it, whose turn
// is it. Nothing that a peer sends may do more than end its own operations.
//
// A message or atomic is put into its order (§3.2). Packets of a message of which the first
// packet had its turn go to it directly, and so does the long-CTS packet that takes the
// place of a refused read-based one (§4.7).
func (p *Peer) onArrived(r *device.RecvPkt) {
	v, l, env := &r.View, p.link, p.env
	id, ok := v.ConnID()
	if r.Err != nil || ok && id != l.QKey || l.Err != nil {
		if !p.admits(r) {
			return
		}
	}
	env.Counters.PacketsRecv[v.Type]++
	l.heard = env.now()
	if p.handshake == handshakeNone {
		p.answer()
	}
	if !v.Type.HasMsgID() {
		p.onOther(r)
		return
	}
	pkt := env.Pool.Get(r, l) // read does the same
	if n, _ := v.Eager(&pkt.Eager); n > 0 {
		pkt.setEager(v, n)
	} else if !p.readOther(r, pkt) {
		return
	} else if pkt.Nack {
		p.onReplaced(pkt)
		return
	}
	if pkt.MsgID != p.window.exp || p.window.held != 0 {
		p.outOfLine(pkt)
		return
	}
	if !pkt.Whole() && pkt.multi() { // it is the first one, since its turn has only come now
		p.beginMulti(pkt)
	}
	p.window.exp++ // first, since a panic of those who are called ends this call
	if sh := env.Sh; sh.Enter(env.Endpoint) {
		env.Acceptor.Accept(pkt)
		sh.Exit()
	} else {
		sh.Tell(env.Endpoint, pkt.Arrive())
	}
}

// outOfLine takes a message or atomic that does not simply follow the one before it.
func (p *Peer) outOfLine(pkt *Packet) {
	if m := p.multiOf(pkt); m != nil {
		p.continueMulti(m, pkt)
	} else {
		p.place(pkt)
	}
}

// onOther takes a packet that has no place in the order of messages.
func (p *Peer) onOther(r *device.RecvPkt) {
	switch t := r.View.Type; {
	case t == wire.TypeHandshake:
		p.onHandshake(&r.View)
		r.Release()
	case t == wire.TypePeerError:
		p.onPeerError(r)
	case t.IsREQ():
		p.onAccess(r)
	default:
		p.onAnswer(r)
	}
}

// admits deals with a packet that cannot be read, that is another's, or that comes from a peer
// which has failed. It reports whether the packet is to be handled; if not, it has seen to it.
func (p *Peer) admits(r *device.RecvPkt) bool {
	c, l := &p.env.Counters, p.link
	if r.Err != nil {
		c.bad(r.Err)
		p.env.Complain(l, r.Err)
		r.Release()
		return false
	}
	if id, ok := r.View.ConnID(); ok && id != l.QKey {
		p.env.Sh.Tell(p.env.Endpoint, &Stranger{Pkt: r, Link: l})
		return false
	}
	switch {
	case !l.Away:
		c.PeerDown++
		r.Release()
		return false
	case p.failing:
		p.env.Sh.Tell(l.Peer, r.Arrived())
		return false
	}
	p.comeBack()
	return true
}

// read parses a packet; nil: it was dropped. Each header field is read once; what follows works
// on the Packet alone.
func (p *Peer) read(r *device.RecvPkt) *Packet {
	v, pkt := &r.View, p.env.Pool.Get(r, p.link)
	if n, _ := v.Eager(&pkt.Eager); n > 0 {
		pkt.setEager(v, n)
	} else if !p.readOther(r, pkt) {
		return nil
	}
	return pkt
}

// readOther is read of a packet that is no eager message, or is one that cannot be read. It reports
// whether it could be read; if not, it was dropped.
func (p *Peer) readOther(r *device.RecvPkt, pkt *Packet) bool {
	v := &r.View
	var err error
	if pkt.Type = v.Type; pkt.Type.IsEagerRTM() {
		_, err = v.Eager(&pkt.Eager)
	} else {
		err = pkt.parse(v, v.Bytes())
	}
	if err != nil {
		p.unreadable(r, pkt, err)
	}
	return err == nil
}

// place processes a packet if it is its turn, and keeps it if that is to come.
func (p *Peer) place(pkt *Packet) {
	switch p.window.Place(pkt) {
	case InOrder:
		p.several(pkt)
		if next := p.window.Advance(); next != nil {
			p.goOn(next)
		}
	case Stale:
		p.tookBack.drop(pkt)
	case Overflowed:
		p.env.Counters.Overflow++
		p.keep(pkt)
	case Held:
		p.keep(pkt)
	case Early:
		p.begin(pkt)
	}
}

// keep copies a packet that came too early out of its receive slot.
func (p *Peer) keep(pkt *Packet) {
	p.env.Counters.OutOfOrder++
	p.env.Mem.Early++
	pkt.Own()
}

// goOn processes packets that had waited for their turn, which has come.
func (p *Peer) goOn(pkt *Packet) {
	for ; pkt != nil; pkt = p.window.Advance() {
		for q := pkt; q != nil; q = q.Next {
			p.env.Mem.Early--
		}
		p.several(pkt)
	}
}

// several processes the packets of one message whose turn it is.
func (p *Peer) several(pkt *Packet) {
	for first := true; pkt != nil; first = false {
		next := pkt.Next
		pkt.Next = nil
		if m := p.multiOf(pkt); m != nil {
			p.continueMulti(m, pkt)
		} else if first {
			p.begin(pkt)
		} else { // its message is complete without it
			p.tookBack.drop(pkt)
		}
		pkt = next
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
// matches or executes it. Most packets get there by onArrived.
func (p *Peer) begin(pkt *Packet) {
	if pkt.Aborted {
		pkt.Free()
		return
	}
	if !pkt.Whole() && pkt.multi() {
		p.beginMulti(pkt)
	}
	p.env.Sh.Call(p.env.Endpoint, pkt.Arrive())
}

// beginMulti notes a message of which further packets are to come, if pkt does not hold all that
// travels in packets.
func (p *Peer) beginMulti(pkt *Packet) {
	n, span := uint64(len(pkt.Payload)), pkt.span()
	if n >= span {
		return
	}
	m := p.env.Pool.getMulti()
	m.Total, m.span, m.missing = pkt.Length, span, span-n
	m.packets++
	pkt.Multi = m
	if p.multi == nil {
		p.multi = make(map[uint32]*Multi)
	}
	p.multi[pkt.MsgID] = m
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
		p.env.Sh.Call(p.env.Endpoint, pkt.Arrive())
		return
	}
	p.env.Sh.Call(m.Rx, pkt.Deliver())
}

// onAnswer hands a packet to the operation that it names, by the id that we gave
// the peer.
func (p *Peer) onAnswer(r *device.RecvPkt) {
	pkt := p.read(r)
	if pkt == nil {
		return
	}
	id := pkt.SendID
	switch pkt.Type {
	case wire.TypeCTSData, wire.TypeREADRSP, wire.TypeATOMRSP:
		id = pkt.RecvID
	default:
	}
	p.deliver(pkt, id)
}

func (p *Peer) deliver(pkt *Packet, id uint32) {
	op := p.env.Ops.Find(id)
	if !op.IsZero() {
		p.env.Sh.Call(op, pkt.Deliver())
		return
	}
	if pkt.Untold(id) {
		p.env.Sh.Call(p.env.Endpoint, pkt.Arrive())
		return
	}
	p.env.Counters.BadID++
	pkt.Free()
}

// onAccess hands a request to write or read to the endpoint; these are in no order
// (§3.3). A write of nothing to nowhere asks for HANDSHAKE, which was answered
// already.
func (p *Peer) onAccess(r *device.RecvPkt) {
	pkt := p.read(r)
	if pkt == nil {
		return
	}
	if pkt.Ext.NRMA == 0 && pkt.Type == wire.TypeEagerRTW && pkt.Length == 0 && !pkt.HasData {
		pkt.Free()
		if p.link.putOff > 0 { // perhaps it takes more now
			p.leaveBackoff()
		}
		return
	}
	p.env.Sh.Call(p.env.Endpoint, pkt.Arrive())
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
