package eratest

import (
	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/wire"
)

// order tracks the messages and atomics of one peer in the order of their msg_id
// (§3.2).
type order struct {
	next  uint32          // whose turn it is
	ahead map[uint32]bool // those that came before their turn
	open  map[uint32]*message
	reads map[uint32]uint32 // msg_id of open messages that are to be read, by send_id
}

// message is a message that has arrived in part.
type message struct {
	typ    wire.Type
	total  uint64
	send   uint32 // the sender's id
	runt   uint64 // bytes that come in its packets
	got    spans
	nacked bool // the endpoint refused to read the rest
}

// take judges the msg_id of a request.
func (o *order) take(v *view, p *era.Profile, in *incoming) *Fault {
	if !v.typ.HasMsgID() {
		return nil
	}
	m := o.open[v.msgID]
	if v.nack {
		if m == nil || !m.nacked || v.total != m.total {
			return bad(RuleNACK, "it replaces no message that was refused")
		}
		in.replaced(v, m)
		delete(o.open, v.msgID)
		return nil
	}
	cut := v.runt > 0 // medium and runt
	if m != nil && cut && m.typ == v.typ {
		return o.segment(m, v)
	}
	if f := o.turn(v.msgID, p); f != nil {
		return f
	}
	if !cut && len(v.read) == 0 {
		return nil
	}
	m = &message{typ: v.typ, total: v.total, send: v.send, runt: v.runt}
	if f := o.segment(m, v); f != nil {
		return f
	}
	if m.complete() {
		return nil
	}
	if o.open == nil {
		o.open, o.reads = map[uint32]*message{}, map[uint32]uint32{}
	}
	o.open[v.msgID] = m
	if m.runt < m.total {
		o.reads[m.send] = v.msgID
	}
	return nil
}

// turn judges a msg_id that is not yet known.
func (o *order) turn(id uint32, p *era.Profile) *Fault {
	d := int32(id - o.next)
	switch {
	case d < 0, o.ahead[id]:
		return bad(RuleDuplicate, "msg_id %d was there, %d is next", id, o.next)
	case p.AbortsAhead && d >= int32(p.RecvWindow):
		return bad(RuleAhead, "msg_id %d, but %d is next", id, o.next)
	}
	o.skip(id)
	return nil
}

// skip notes that a msg_id has come, or will not come.
func (o *order) skip(id uint32) {
	if m := o.open[id]; m != nil {
		delete(o.reads, m.send)
		delete(o.open, id)
	}
	if int32(id-o.next) < 0 {
		return
	}
	if o.ahead == nil {
		o.ahead = map[uint32]bool{}
	}
	for o.ahead[id] = true; o.ahead[o.next]; o.next++ {
		delete(o.ahead, o.next)
	}
}

// segment adds a packet's data to a message of several packets (§3.2, §4.5).
func (o *order) segment(m *message, v *view) *Fault {
	switch {
	case v.total != m.total, v.runt != m.runt, v.send != m.send:
		return bad(RuleSegment, "msg_id %d is of another message", v.msgID)
	case v.off > m.runt, v.n > m.runt-v.off:
		return bad(RuleSegment, "bytes %d to %d of %d", v.off, v.off+v.n, m.runt)
	case !m.got.add(v.off, v.n):
		return bad(RuleSegment, "bytes %d to %d were there", v.off, v.off+v.n)
	}
	if m.complete() {
		delete(o.open, v.msgID)
	}
	return nil
}

// complete reports whether all of it has arrived. A message whose rest is to be
// read waits for the endpoint's EOR or READ_NACK.
func (m *message) complete() bool { return m.got.size() == m.runt && m.runt == m.total && m.runt > 0 }

// answered: the endpoint has read the message with that send_id, or refused to.
func (o *order) answered(send uint32, refused bool) {
	id, ok := o.reads[send]
	if !ok {
		return // a write
	}
	delete(o.reads, send)
	if refused {
		o.open[id].nacked = true
	} else {
		delete(o.open, id)
	}
}
