package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// What operations leave in the trail. With tracing off every span is 0.

// Follow begins the trail of a request: who asks for what, with whom (nil: with
// anybody).
func (o *Order) Follow(l *trail.Log, with *peer.Link) {
	if l == nil {
		return
	}
	q := &o.Req
	o.Span = l.Next()
	l.Put(o.Span, trail.Begin, uint8(role(q)), uint64(len(q.Buf)), flags(q))
	if with != nil {
		l.Put(o.Span, trail.With, 0, with.Span, 0)
	}
	if q.Flags&Tagged != 0 {
		l.Put(o.Span, trail.Tag, 0, q.Tag, 0)
	}
}

func role(q *Request) trail.Role {
	switch q.Kind {
	case KindSend:
		return trail.Send
	case KindWrite:
		return trail.Write
	case KindRead:
		return trail.Read
	case KindAtomic:
		switch q.Form {
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

func flags(q *Request) (f uint32) {
	if q.Flags&Tagged != 0 {
		f |= trail.FlagTagged
	}
	if q.Flags&HasData != 0 {
		f |= trail.FlagData
	}
	if q.Flags&Deliver != 0 {
		f |= trail.FlagDeliver
	}
	if q.Flags&Inject != 0 {
		f |= trail.FlagInject
	}
	return f
}

// requestKey is by what both sides know a request of ours; theirs, one of the peer's.
func requestKey(l *peer.Link) uint64 { return uint64(l.Env().Addr.ConnID())<<32 | uint64(l.QKey) }
func theirs(l *peer.Link) uint64     { return uint64(l.QKey)<<32 | uint64(l.Env().Addr.ConnID()) }

// note leaves a record of the txe's operation.
func (t *Txe) note(k trail.Kind, code uint8, a uint64, b uint32) {
	if l := t.pools.env.Trail; l != nil && t.ord != nil {
		l.Put(t.ord.Span, k, code, a, b)
	}
}

// noteChosen: the subprotocol, and the key if it has one: a msg_id, or the id by
// which the other side will answer. Plain eager writes and direct RDMA have none.
func (t *Txe) noteChosen() {
	if t.pools.env.Trail == nil {
		return
	}
	p := t.m.Proto
	t.note(trail.Chosen, uint8(p), t.m.Total, 0)
	switch {
	case t.spent && t.ord.Req.Kind != KindWrite:
		t.note(trail.Key, uint8(trail.MsgID), requestKey(t.link), t.turn.MsgID)
	case p == LongCTSWrite, p == LongReadWrite, p == DCEagerWrite, p == DCLongCTSWrite:
		t.note(trail.Key, uint8(trail.SendID), requestKey(t.link), t.id)
	}
}

// noteAnswering begins the trail of an answer to a request of the peer's.
func (t *Txe) noteAnswering(r trail.Role, total uint64, kind trail.KeyKind, id uint32) {
	l := t.pools.env.Trail
	if l == nil {
		return
	}
	t.ord.Span = l.Next()
	t.note(trail.Begin, uint8(r), total, 0)
	t.note(trail.With, 0, t.link.Span, 0)
	if kind != 0 {
		t.note(trail.Key, uint8(kind), theirs(t.link), id)
	}
}

// follow begins the trail of what a packet of the peer's begins here.
func (r *Rxe) follow(pkt *peer.Packet) {
	l := r.pools.env.Trail
	r.got, r.gotPackets = 0, 0
	if r.span = 0; l == nil || r.m.Proto == EagerWrite {
		return // nobody could tell whose half a plain eager write is
	}
	r.span = l.Next()
	role, flags := trail.Message, uint32(0)
	if !pkt.Type.IsRTM() {
		role = trail.TargetWrite
	}
	if pkt.Tagged {
		flags |= trail.FlagTagged
	}
	if pkt.HasData {
		flags |= trail.FlagData
	}
	if r.dc {
		flags |= trail.FlagDeliver
	}
	l.Put(r.span, trail.Begin, uint8(role), pkt.Length, flags)
	l.Put(r.span, trail.With, 0, r.link.Span, 0)
	if pkt.Tagged {
		l.Put(r.span, trail.Tag, 0, pkt.Tag, 0)
	}
	l.Put(r.span, trail.Chosen, uint8(r.m.Proto), pkt.Length, 0)
	if role == trail.Message {
		l.Put(r.span, trail.Key, uint8(trail.MsgID), theirs(r.link), pkt.MsgID)
	} else {
		l.Put(r.span, trail.Key, uint8(trail.SendID), theirs(r.link), pkt.SendID)
	}
}

func (r *Rxe) note(k trail.Kind, code uint8, a uint64, b uint32) {
	r.pools.env.Trail.Put(r.span, k, code, a, b)
}

// noteData counts data that came; noteReceived tells of it, once for many packets.
func (r *Rxe) noteData(p *peer.Packet) {
	if r.span != 0 {
		r.got += uint64(len(p.Payload))
		if r.gotPackets++; r.gotPackets == 1 {
			r.gotType = p.Type
		}
	}
}

func (r *Rxe) noteReceived() {
	if r.gotPackets > 0 {
		r.note(trail.Received, uint8(r.gotType), r.got, r.gotPackets)
		r.got, r.gotPackets = 0, 0
	}
}

// noteControl tells of a packet that was posted for the rxe.
func (r *Rxe) noteControl(p *device.Pke, granted uint64) {
	if r.span == 0 {
		return
	}
	p.Span = r.span
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

func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
