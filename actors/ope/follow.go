package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// What operations leave in the trail. With tracing off every span is 0.

// Follow begins the trail of a request with its kind, its length and its peer, which is
// nil of a receive from any peer.
func (o *Order) Follow(l *trail.Log, with *peer.Link) {
	if l != nil {
		o.Span = follow(l, &o.Req, with)
	}
}

func follow(l *trail.Log, q *Request, with *peer.Link) uint64 {
	span := l.Next()
	l.Put(span, trail.Begin, uint8(q.role()), uint64(q.Len()), q.flags())
	if q.Flags&Traced != 0 {
		l.Put(span, trail.Parent, 0, q.ID, 0)
	}
	if with != nil {
		l.Put(span, trail.With, 0, with.Span, 0)
	}
	if q.Flags&Tagged != 0 {
		l.Put(span, trail.Tag, 0, q.Tag, 0)
	}
	return span
}

// drop ends a trail without an outcome, since others tell what the request did.
func drop(l *trail.Log, o *Order) {
	if o.Span != 0 {
		l.Put(o.Span, trail.Dropped, 0, 0, 0)
	}
}

// role is the part of a request's operation.
func (r *Request) role() trail.Role {
	switch r.Kind {
	case KindSend:
		return trail.Send
	case KindWrite:
		return trail.Write
	case KindRead:
		return trail.Read
	case KindAtomic:
		switch r.Form {
		case AtomicFetch:
			return trail.AtomicFetch
		case AtomicCompare:
			return trail.AtomicCompare
		default:
			return trail.AtomicWrite
		}
	default:
		return trail.Receive
	}
}

func (r *Request) flags() (f uint32) {
	if r.Flags&Tagged != 0 {
		f |= trail.FlagTagged
	}
	if r.Flags&HasData != 0 {
		f |= trail.FlagData
	}
	if r.Flags&Deliver != 0 {
		f |= trail.FlagDeliver
	}
	if r.Flags&Inject != 0 {
		f |= trail.FlagInject
	}
	return f
}

// requestConnids are those of requester and responder of a request of ours, theirs
// of one of the peer's.
func requestConnids(l *peer.Link) uint64 { return trail.Connids(l.Env().Addr.ConnID(), l.QKey) }
func theirs(l *peer.Link) uint64         { return trail.Connids(l.QKey, l.Env().Addr.ConnID()) }

// note leaves a record of the txe's operation.
func (t *outgoing) note(k trail.Kind, code uint8, a uint64, b uint32) {
	if t.turn.Span != 0 {
		t.leave(k, code, a, b)
	}
}

func (t *outgoing) leave(k trail.Kind, code uint8, a uint64, b uint32) {
	t.pools.env.Trail.Put(t.turn.Span, k, code, a, b)
}

func (t *outgoing) noteChosen(p Proto) {
	ids, id := uint64(0), uint32(0)
	switch k := p.KeyKind(); {
	case k == trail.MsgID && t.spent:
		ids, id = requestConnids(t.link), t.turn.MsgID
	case k == trail.SendID:
		ids, id = requestConnids(t.link), t.id
	}
	t.note(trail.Chosen, uint8(p), ids, id)
}

// noteArrived: an RDMA write of n bytes has ended, or a packet arrived.
func (t *outgoing) noteArrived(kind device.WR, off uint64, n int) {
	switch {
	case kind == device.WRWrite:
		t.leave(trail.SegmentDone, uint8(kind), off, uint32(n))
	case t.m.Flying == 0:
		t.leave(trail.Acked, 0, t.m.Acked, 0)
	}
}

// noteWaits: nothing more can be posted now. More than one call may find that.
func (t *outgoing) noteWaits(s *sentBatch, already bool, why trail.Reason) {
	t.noteSent(s)
	if !already {
		t.note(trail.Waits, uint8(why), 0, 0)
	}
}

// noteAnswering begins the trail of an answer to a request of the peer's, which came
// by a subprotocol with an id.
func (t *outgoing) noteAnswering(r trail.Role, p Proto, total uint64, id uint32) {
	t.pools.Mix.Served[p]++
	l := t.pools.env.Trail
	if l == nil {
		return
	}
	t.turn.Span = l.Next()
	t.note(trail.Begin, uint8(r), total, 0)
	t.note(trail.With, 0, t.link.Span, 0)
	t.note(trail.Chosen, uint8(p), theirs(t.link), id)
}

// follow begins the trail of what a packet of the peer's begins here. A plain
// eager write has none, since no id connects it with the requester's half.
func (r *incoming) follow(l *trail.Log, pkt *peer.Packet) {
	c := came{role: trail.Message, proto: r.m.Proto, id: pkt.MsgID, length: pkt.Length, tag: pkt.Tag}
	if !pkt.Type.IsRTM() {
		c.role, c.id = trail.TargetWrite, pkt.SendID
	}
	if pkt.Tagged {
		c.flags |= trail.FlagTagged
	}
	if pkt.HasData {
		c.flags |= trail.FlagData
	}
	if r.m.Proto.dc() {
		c.flags |= trail.FlagDeliver
	}
	r.span = c.follow(l, r.link)
}

// came is what is followed of the peer's.
type came struct {
	role   trail.Role
	proto  Proto
	flags  uint32
	id     uint32
	length uint64
	tag    uint64
}

func (c *came) follow(l *trail.Log, with *peer.Link) uint64 {
	span := l.Next()
	l.Put(span, trail.Begin, uint8(c.role), c.length, c.flags)
	l.Put(span, trail.With, 0, with.Span, 0)
	if c.flags&trail.FlagTagged != 0 {
		l.Put(span, trail.Tag, 0, c.tag, 0)
	}
	l.Put(span, trail.Chosen, uint8(c.proto), theirs(with), c.id)
	return span
}

// note leaves a record of the rxe's operation.
func (r *incoming) note(k trail.Kind, code uint8, a uint64, b uint32) {
	if r.span != 0 {
		r.leave(k, code, a, b)
	}
}

func (r *incoming) leave(k trail.Kind, code uint8, a uint64, b uint32) {
	r.pools.env.Trail.Put(r.span, k, code, a, b)
}

// noteData counts data that came; noteReceived writes one record for many packets.
func (r *incoming) noteData(p *peer.Packet) {
	if r.span != 0 {
		r.got += uint64(len(p.Payload))
		if r.gotPackets++; r.gotPackets == 1 {
			r.gotType = p.Type
		}
	}
}

func (r *incoming) noteReceived() {
	if r.gotPackets > 0 {
		r.leaveReceived()
	}
}

func (r *incoming) leaveReceived() {
	r.leave(trail.Received, uint8(r.gotType), r.got, r.gotPackets)
	r.got, r.gotPackets = 0, 0
}

// noteControl leaves a record of a packet that was posted for the rxe.
func (r *incoming) noteControl(p *device.Pke, granted uint64) {
	if r.span == 0 {
		return
	}
	r.noteReceived()
	if t := wire.Type(p.Type()); t == wire.TypeCTS {
		r.note(trail.Window, 0, granted, 0)
	} else {
		r.note(trail.Answer, uint8(t), 0, 0)
	}
}

// sentBatch is what one call of pump posted.
type sentBatch struct {
	bytes uint64
	n     uint32
	first uint8
}

func (s *sentBatch) add(p *device.Pke) {
	if s.n == 0 {
		s.first = p.Type()
	}
	s.n++
	s.bytes += uint64(p.Bytes)
}

// noteSent leaves one record of it.
func (t *outgoing) noteSent(s *sentBatch) {
	if t.turn.Span != 0 && s.n > 0 {
		t.leaveSent(s)
	}
}

//go:noinline // so that noteSent is
func (t *outgoing) leaveSent(s *sentBatch) {
	if !protos[t.m.Proto].rdma {
		t.leave(trail.Sent, s.first, s.bytes, s.n)
	}
	*s = sentBatch{}
}
