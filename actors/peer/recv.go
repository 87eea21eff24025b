package peer

// How a message is received, from the device to the outcome:
//
//  1. actors/device/queue.go: the queue takes a completion and calls the peer that sent it.
//  2. actors/peer/recv.go: the peer parses the packet and puts the message into its order.
//  3. actors/endpoint/match.go: the endpoint gives the message an rxe and matches it.
//  4. actors/ope/rxe.go: the rxe begins, and has the receive, or keeps the data without one.
//  5. actors/ope/deliver.go: onWhole copies a message that is whole and gives the outcome to the sink, in one step.

import (
	"fmt"
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// onArrived takes a packet from the device: whose is it, what is it, whose turn
// is it. Nothing that a peer sends may do more than end its own operations.
//
// A message or atomic is put into its order (§3.2). Packets of a message of which the first
// packet had its turn go to it directly, and so does the long-CTS packet that takes the
// place of a refused read-based one (§4.7).
func (p *Peer) onArrived(r *device.RecvPkt) {
	v, l, env := &r.View, p.link, p.env
	id, ok := v.ConnID()
	if r.Err != nil || !ok || id != l.QKey || l.Err != nil {
		if !p.admits(r) {
			return
		}
	}
	env.Counters.PacketsRecv[v.Type]++
	l.heard = env.now()
	if !p.answered {
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
	if pkt.MsgID != p.window.exp || p.window.kept != 0 {
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
		p.reorder(pkt)
	}
}

// admits deals with a packet that cannot be read, that is another's, or that comes from a peer
// which has failed. It reports whether the packet is to be handled; if not, it has seen to it.
func (p *Peer) admits(r *device.RecvPkt) bool {
	c, l := &p.env.Counters, p.link
	if r.Err != nil {
		c.bad(r.Err)
		p.env.Complain(l, r.Err)
		if !l.load.flags.has(contested) { // else it may be the newcomer's
			p.condemn(r.Err)
		}
		r.Release()
		return false
	}
	if id, ok := r.View.ConnID(); ok && id != l.QKey || !ok && l.load.flags.has(onTrial) {
		p.env.Sh.Tell(p.env.Endpoint, &Stranger{Pkt: r, Link: l})
		return false
	}
	switch {
	case l.Err == nil: // a release that does not say in all packets who sends them
		return true
	case l.Buried():
		if isVerdict(l.Err) {
			l.shut() // the device may have forgotten that
		}
		c.PeerDown++
		r.Release()
		return false
	case l.load.life != Away: // its operations are to hear of the failure first
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
	} else if r.Placed != nil {
		p.placed(r, pkt)
	}
	return err == nil
}

// PayloadPlace says for the device where the payload of a packet belongs, of which head is the beginning and which has size
// bytes (device.Placer). Only packets of a message that has begun have a place.
func (p *Peer) PayloadPlace(head []byte, size int) (dst []byte, later bool) {
	var v wire.View
	var h wire.MediumRTM
	if v.Open(head) != nil || p.link.Err != nil {
		return nil, false
	}
	if id, ok := v.ConnID(); !ok || id != p.link.QKey {
		return nil, false
	}
	at, err := h.Read(&v)
	if err != nil || at >= size {
		return nil, false
	}
	n, m := uint64(size-at), p.multi[h.MsgID]
	switch {
	case m == nil:
		return nil, h.SegOffset > 0 && int32(h.MsgID-p.window.exp) >= 0
	case m.To == nil:
		return nil, m.Rx.IsZero()
	case m.Total != h.MsgLength || n > m.missing || h.SegOffset > m.span || n > m.span-h.SegOffset:
		return nil, false
	}
	return m.To.Place(p.link, h.MsgID, h.SegOffset, n), false
}

// placed takes the payload of a packet from its place, or makes it zeroes if its message has gone since.
func (p *Peer) placed(r *device.RecvPkt, pkt *Packet) {
	if m := p.multiOf(pkt); m == nil || m.To == nil || len(r.Placed) != len(pkt.Payload) {
		clear(pkt.Payload)
	} else {
		pkt.Payload, pkt.Placed = r.Placed, true
	}
	r.Placed = nil // which is the application's
}

// unreadable drops a packet of which the headers cannot be read. Its sender takes it for
// arrived. If it says which message it belongs to, that one ends alone: its turn is passed
// over, or what has begun ends with ErrMalformed, so that the later ones are received.
func (p *Peer) unreadable(r *device.RecvPkt, pkt *Packet, err error) {
	p.env.Counters.bad(err)
	p.env.Complain(p.link, err)
	id, ok := r.View.MsgID()
	if !ok {
		if t := r.View.Type; t.HasMsgID() || t == wire.TypePeerError {
			p.condemn(err)
		}
		pkt.Free()
		return
	}
	pkt.reset()
	pkt.MsgID, pkt.Type, pkt.Ref, pkt.Malformed = id, wire.TypePeerError, wire.RefMsgIDSkip, true
	p.env.Counters.Malformed++
	if !p.nacked[id].IsZero() {
		p.onReplaced(pkt)
	} else {
		p.skip(pkt)
	}
}

// condemn ends the peer for a packet that cannot be read: a msg_id that it may have had is lost, and what
// the peer sends later would wait for its turn for ever.
func (p *Peer) condemn(err error) {
	if !p.link.Buried() {
		p.env.Sh.Tell(p.link.Peer, &Remove{Err: fmt.Errorf("%w: %w", ErrUnreadable, err), Tell: true})
	}
}

// reorder processes a packet if it is its turn, and keeps it if that is to come.
func (p *Peer) reorder(pkt *Packet) {
	switch p.window.Place(pkt) {
	case InOrder:
		p.handleChain(pkt)
		if next := p.window.Advance(); next != nil {
			p.resumeOrder(next)
		}
	case Stale:
		p.aborted.drop(pkt)
	case Overflowed:
		p.env.Counters.Overflow++
		p.keep(pkt)
	case Kept:
		p.keep(pkt)
	case Unordered:
		p.handToEndpoint(pkt)
	}
	p.link.load.early = p.window.kept
}

// keep copies a packet that came too early out of its receive slot.
func (p *Peer) keep(pkt *Packet) {
	p.env.Counters.OutOfOrder++
	p.env.Mem.Early++
	pkt.Own()
}

// resumeOrder processes packets that had waited for their turn, which has come.
func (p *Peer) resumeOrder(pkt *Packet) {
	for ; pkt != nil; pkt = p.window.Advance() {
		for q := pkt; q != nil; q = q.Next {
			p.env.Mem.Early--
		}
		p.handleChain(pkt)
	}
}

// handleChain processes the packets of one message whose turn it is.
func (p *Peer) handleChain(pkt *Packet) {
	for first := true; pkt != nil; first = false {
		next := pkt.Next
		pkt.Next = nil
		if m := p.multiOf(pkt); m != nil {
			p.continueMulti(m, pkt)
		} else if first {
			p.handToEndpoint(pkt)
		} else { // its message is complete without it
			p.aborted.drop(pkt)
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

// handToEndpoint hands the first packet of a message, or an atomic, to the endpoint, which
// matches or executes it. Most packets get there by onArrived.
func (p *Peer) handToEndpoint(pkt *Packet) {
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
	p.link.load.parts++
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
		p.link.load.parts--
	}
	if m.Rx.IsZero() {
		p.env.Sh.Call(p.env.Endpoint, pkt.Arrive())
		return
	}
	p.env.Sh.Call(m.Rx, pkt.Deliver())
}

// onOther takes a packet that has no place in the order of messages.
func (p *Peer) onOther(r *device.RecvPkt) {
	switch t := r.View.Type; {
	case t == wire.TypeHandshake:
		if p.onHandshake(&r.View) {
			r.Release()
		} else { // it may be another endpoint's
			p.env.Sh.Tell(p.env.Endpoint, &Stranger{Pkt: r, Link: p.link})
		}
	case t == wire.TypePeerError:
		p.onPeerError(r)
	case t.IsREQ():
		p.onAccess(r)
	default:
		p.onAnswer(r)
	}
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
	if pkt.OfOrphan(id) {
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
		if p.link.load.putOff > 0 { // perhaps it takes more now
			p.endBackoff()
		}
		return
	}
	p.env.Sh.Call(p.env.Endpoint, pkt.Arrive())
}

// onPeerError: the peer gives up an operation that both sides know by an id, or a
// message of which we may have seen nothing (PEER_ERROR; after release 2.6). All its forms are
// read, whatever the peer has announced.
func (p *Peer) onPeerError(r *device.RecvPkt) {
	pkt := p.read(r)
	if pkt == nil {
		return
	}
	p.env.Counters.PeerErrorsRecv++
	switch {
	case pkt.Ref == wire.RefOpe:
		p.deliver(pkt, pkt.RecvID)
	case pkt.Emitter == wire.EmitterRX: // of a message of ours
		p.env.Sh.Call(p.env.Endpoint, pkt.Arrive())
	case pkt.Ref == wire.RefMsgID, pkt.Ref == wire.RefMsgIDSkip:
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
		p.aborted = p.aborted.add(pkt.MsgID)
		if m != nil {
			delete(p.multi, pkt.MsgID)
			p.link.load.parts--
			if m.missing = 0; m.packets == 0 {
				p.env.Pool.putMulti(m)
			}
		}
		p.env.Sh.Tell(p.env.Endpoint, pkt.Arrive())
		return
	}
	p.aborted = p.aborted.add(pkt.MsgID)
	kept := p.window.Kept()
	q := p.window.Remove(pkt.MsgID)
	p.env.Mem.Early -= int64(kept - p.window.Kept())
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
	p.reorder(pkt)
}

// abortedIDs is the msg_ids of the last messages that the peer took back, of which a
// packet may still come: one without an address handle goes by way of the endpoint, and
// PEER_ERROR may overtake it there.
type abortedIDs struct {
	ids [16]uint32
	n   int // of them, all that there were

	vain int32  // searches that found nothing, less the messages that there were since, see MaySearch
	at   uint32 // how many messages there had been at the last search
}

// add notes one more, and returns b, which it makes if there is none.
func (b *abortedIDs) add(id uint32) *abortedIDs {
	if b == nil {
		b = new(abortedIDs)
	}
	b.ids[b.n%len(b.ids)] = id
	b.n++
	return b
}

func (b *abortedIDs) has(id uint32) bool {
	return b != nil && slices.Contains(b.ids[:min(b.n, len(b.ids))], id)
}

// drop drops a packet of a message that is over.
func (b *abortedIDs) drop(pkt *Packet) {
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
	before := len(p.nacked)
	switch {
	case n.Rx.IsZero() || p.link.Buried():
		delete(p.nacked, n.MsgID)
	case p.nacked == nil:
		p.nacked = map[uint32]shard.Ref{n.MsgID: n.Rx}
	default:
		p.nacked[n.MsgID] = n.Rx
	}
	p.link.load.parts += uint32(len(p.nacked) - before)
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
	p.link.load.parts--
	p.env.Sh.Tell(rx, pkt.Deliver())
}

// onWritten: the device has carried out a write of the peer's with immediate
// data (§4.6). That is no packet: it neither is answered with HANDSHAKE nor has an
// order.
func (p *Peer) onWritten(w *device.Written) {
	switch life := p.link.load.life; {
	case p.link.Err == nil:
	case life == Buried:
		w.Free()
		return
	case life != Away: // as admits
		p.env.Sh.Tell(p.link.Peer, w)
		return
	default:
		p.comeBack()
	}
	p.heardFrom()
	x := p.env.Pool.getWrote()
	x.Link, x.Len, x.Data = p.link, w.Len, w.Imm
	w.Free()
	p.env.Sh.Tell(p.env.Endpoint, x)
}

// onRefused: the device itself refused an RDMA request of the peer's.
func (p *Peer) onRefused(r *device.Refused) {
	if p.link.Err != nil {
		return
	}
	p.env.Counters.Refused++
	p.env.Sh.Tell(p.env.Endpoint, &Intruded{Link: p.link, Guess: r.Guess})
}
