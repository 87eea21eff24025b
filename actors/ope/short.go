package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// A message of one packet takes a short way if it need not wait: most do not, and it
// costs half. It becomes an operation only if the device keeps its packet. What is
// counted and what is left in the trail is the same as on the long way.

// Shortcut is what became of an attempt to send by the short way.
type Shortcut uint8

// The outcomes.
const (
	ShortNo   Shortcut = iota // nothing has happened: send it the long way
	ShortOver                 // the message has arrived; its sink is yet to be told, see Sent
	ShortKept                 // the device has the packet: it is to become an operation, see Keep
)

// SendShort sends a message if it can go out at once. Of one that is ShortKept the
// packet is returned.
func (p *Pools) SendShort(q *Request, l *peer.Link) (Shortcut, *device.Pke) {
	env := p.env
	if q.Flags&Inject != 0 {
		q.Flags &^= Deliver // nobody waits for it
	}
	if p.txFree == nil || !env.Sh.Quiet() {
		return ShortNo, nil
	}
	rawAddr, connID := l.Optional()
	room := Headers{MTU: env.MTU, RawAddr: rawAddr, ConnID: connID, HasData: q.Flags&HasData != 0}
	if !p.isShort(q, l, &room) {
		return ShortNo, nil
	}
	var h wire.EagerRTM
	h.Tagged, h.Tag = q.Flags&Tagged != 0, q.Tag
	var ok bool
	if h.MsgID, ok = l.NextID(); !ok {
		return ShortNo, nil
	}
	pke := env.Q.Alloc()
	if pke == nil {
		return ShortNo, nil
	}
	p.options(&h.Options, q)
	l.Options(&h.Options, rawAddr, connID)
	pke.Off, pke.Span = 0, 0
	pke.Fill(h.Append(pke.Header()), q.Buf)
	l.Address(pke, shard.Ref{})
	over, err := env.Q.PostPrompt(pke)
	if err != nil {
		env.Q.Free(pke)
		return ShortNo, nil // where the same befalls it, and it fails
	}
	l.Spend()
	env.Counters.PacketsSent[pke.Type()]++
	p.Mix.Chosen[Eager]++
	if env.Trail != nil {
		pke.Span = p.followShort(q, l, pke, h.MsgID)
	}
	if !over {
		return ShortKept, pke
	}
	p.Steps.tx[TxReq][TxPostedAll]++
	p.Steps.tx[TxDrain][TxAckedAll]++
	n := uint64(len(q.Buf))
	p.short = shortOp{span: pke.Span, n: n}
	if pke.Span != 0 {
		env.Trail.Put(pke.Span, trail.Acked, 0, n, 0)
		env.Trail.Outcome(pke.Span, trail.Told, n, nil)
	}
	env.Q.Free(pke)
	l.Heard()
	p.Tally.Count(KindSend, n, nil)
	return ShortOver, nil
}

// followShort tells of a message up to its packet.
func (p *Pools) followShort(q *Request, l *peer.Link, pke *device.Pke, id uint32) uint64 {
	to := p.env.Trail
	span := follow(to, q, l)
	to.Put(span, trail.Chosen, uint8(Eager), requestConnids(l), id)
	to.Put(span, trail.Sent, pke.Type(), uint64(len(q.Buf)), 1)
	return span
}

// Sent is the outcome of a message that is ShortOver. EndShort follows.
func (p *Pools) Sent(q *Request) *Result {
	p.res = Result{}
	p.res.N, p.res.Proto = len(q.Buf), Eager
	return &p.res
}

// shortOp is a message that is over but for its sink, which is being told.
type shortOp struct {
	ord  *Order // that it was received by
	span uint64
	n    uint64
}

// EndShort follows when the sink was told, or has panicked.
func (p *Pools) EndShort(panicked bool) {
	s := &p.short
	if s.span != 0 {
		if panicked {
			p.env.Trail.Put(s.span, trail.Restarted, 0, 0, 0)
		}
		p.env.Trail.Outcome(s.span, trail.End, s.n, nil)
	}
	if s.ord != nil {
		p.Orders.Put(s.ord)
	}
	*s = shortOp{}
}

// Keep makes an operation of a message whose packet the device has.
func (p *Pools) Keep(q *Request, l *peer.Link, pke *device.Pke) {
	t := p.GetTx()
	n := uint64(len(q.Buf))
	o := p.Orders.Get(q, p.env.Sh.Now())
	o.Span, t.turn.Span = pke.Span, pke.Span
	t.begin(o, l, n)
	t.turn.MsgID = l.LastID() // by which the peer is told, should the packet fail
	t.rawAddr, t.connID = l.Optional()
	t.spent = true
	t.m.Start(&Shape{Proto: Eager, Total: n, End: n, Seg: len(q.Buf), Parts: 1})
	_ = t.m.Posted(Segment{Len: n}) // from TXE_REQ
	pke.Owner = t.ref
	l.Posted()
}

// ReceiveShort gives an eager message in its turn to the receive that matched it, and
// returns what its sink is to be told. EndShort follows.
func (p *Pools) ReceiveShort(o *Order, l *peer.Link, h *wire.EagerRTM, payload []byte) (*Request, *Result) {
	p.Steps.rx[RxInit][RxMatch]++
	p.Steps.rx[RxMatched][RxLast]++
	p.Mix.Served[Eager]++
	p.env.Counters.Copied += uint64(len(payload))
	q, r := &o.Req, &p.res
	*r = Result{}
	r.N, r.Proto, r.Peer, r.From = copy(q.Buf, payload), Eager, l.Handle, &l.Addr
	r.Tag, r.Data, r.HasData = h.Tag, h.CQData, h.HasCQData
	if r.Lost = len(payload) - r.N; r.Lost > 0 {
		r.Err = &Truncated{Placed: r.N, Lost: r.Lost}
	}
	if p.env.Trail != nil {
		p.noteShort(o, l, h, uint64(len(payload)))
	}
	p.Tally.Count(q.Kind, uint64(r.N), r.Err)
	o.settled()
	p.short = shortOp{ord: o, span: o.Span, n: uint64(len(payload))}
	return q, r
}

// noteShort tells of a message from its packet on.
func (p *Pools) noteShort(o *Order, l *peer.Link, h *wire.EagerRTM, n uint64) {
	c := came{role: trail.Message, proto: Eager, id: h.MsgID, length: n, tag: h.Tag}
	if h.Tagged {
		c.flags |= trail.FlagTagged
	}
	if h.HasCQData {
		c.flags |= trail.FlagData
	}
	to := p.env.Trail
	message := c.follow(to, l)
	to.Put(o.Span, trail.Matched, 0, message, 0)
	to.Put(o.Span, trail.Received, uint8(h.Type()), n, 1)
	to.Outcome(o.Span, trail.Told, uint64(p.res.N), p.res.Err)
}
