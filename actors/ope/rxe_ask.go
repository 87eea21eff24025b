package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// Read begins a read of ours from l's memory. False: there are MaxOps operations that
// receive, and nothing has happened.
func (p *Pools) Read(q *Request, l *peer.Link) bool {
	r := p.GetRx()
	if r == nil {
		return false
	}
	r.ask(p.Orders.Get(q, p.env.Sh.Now()), l)
	r.x.submit()
	return true
}

// ask arms the rxe for a read and sets what it asks of the peer's line.
func (r *Rxe) ask(ord *Order, l *peer.Link) {
	r.arm(l)
	r.ord = ord
	r.m.Begin(RxAsk, ProtoNone, uint64(ord.Req.Len()), 0)
	r.stored, r.says = 0, wire.Eager{}
	ord.Follow(r.pools.env.Trail, l)
	r.span = ord.Span
	r.keep()
	r.member.BoundInLine(l)
	t := &r.ext().turn
	t.Span = r.span
	t.Ask(true, !r.pools.env.Config.Era.RMANoWait)
	r.member.Of(t)
	if ord.Req.Flags&(Fence|Ordered|Follows) != 0 {
		awaits(t, &ord.Req)
	}
}

// submit asks the peer for the read's turn and handles it if it comes at once, see
// Pools.Send.
func (d *reader) submit() {
	sh := d.r.pools.env.Sh
	if !sh.Enter(d.r.ref) {
		d.r.link.SubmitLater(&d.turn)
		return
	}
	defer sh.Leave(d.r.ref)
	if pke := d.r.link.Submit(&d.turn); pke != nil {
		d.onGrant(pke)
	}
}

// onGrant: it is this read's turn. Choose the subprotocol and ask for the data
// (§3.3), or read it (§4.1).
func (d *reader) onGrant(p *device.Pke) {
	r := d.r
	d.turn.Taken()
	q := r.pools.env.Q
	if r.m.State != RxAsk {
		q.Free(p)
		r.settle()
		return
	}
	req := &r.ord.Req
	rawAddr, connID := r.link.HasRawAddr, r.link.HasConnID
	f := d.facts()
	s, err := d.shape(&f)
	if err == nil && s.Proto == DirectRead && !d.landAll(req, s.Total) {
		f.Local = false
		s, err = d.shape(&f)
	}
	if err != nil {
		q.Free(p)
		r.fail(err)
		return
	}
	if !r.step(RxAsked) {
		q.Free(p)
		return
	}
	r.pools.Mix.Chosen[s.Proto]++
	ids := uint64(0)
	if s.Proto != DirectRead {
		ids = requestConnids(r.link)
	}
	r.note(trail.Chosen, uint8(s.Proto), ids, r.id)
	r.member.Bound(r.link)
	if s.Proto == DirectRead {
		d.readDirect(p, s.Total)
		return
	}
	r.m.Begin(RxMatched, s.Proto, s.Total, s.Total)
	if r.pools.env.Config.Era.RTRWhole {
		s.Window = min(s.Total, maxRTRWindow)
	}
	r.m.Granted(s.Window)
	h := wire.RTR{
		MsgLength: s.Total, RecvID: r.id, RecvLength: uint32(s.Window), LongCTS: s.Proto == LongCTSRead,
	}
	h.RMAIOV, h.RMAIOVCount = req.rmaIOV(s.Total)
	r.link.Options(&h.Options, rawAddr, connID)
	p.Fill(h.Append(p.Header()), nil)
	r.link.Address(p, r.ref)
	p.Span = r.span
	if err := q.Post(p); err != nil {
		q.Free(p)
		r.fail(fmt.Errorf("%s: %w", s.Proto, err))
		return
	}
	r.note(trail.Sent, p.Type(), 0, 1)
	r.note(trail.Window, 0, s.Window, 0)
	r.flying++
	r.pools.env.Counters.PacketsSent[p.Type()]++
}

// facts are those of the request.
func (d *reader) facts() Facts {
	r := d.r
	q := &r.ord.Req
	f := Facts{
		Headers: Headers{MTU: r.pools.env.MTU, RawAddr: r.link.HasRawAddr, ConnID: r.link.HasConnID},
		Kind:    KindRead, Total: q.Len(),
	}
	r.pools.facts(&f, r.link, q)
	if q.Flags&(Fence|Ordered|Follows) != 0 && unheard(r.pools.env) {
		f.CanRead = false // see inTurn
	}
	return f
}

// shape chooses by the facts. A read that takes several operations becomes the first of them.
func (d *reader) shape(f *Facts) (Shape, error) {
	r := d.r
	q := &r.ord.Req
	if last, ok := f.splits(q); ok {
		r.pools.split(q, r.link, last)
		r.m.Begin(RxAsk, ProtoNone, uint64(q.Len()), 0)
		local := f.Local
		*f = d.facts()
		f.Local = f.Local && local
	}
	return f.Choose(r.pools.policy(r.link))
}

// readDirect has the device read the peer's memory. p is an entry for the first
// request.
func (d *reader) readDirect(p *device.Pke, total uint64) {
	r := d.r
	req := &r.ord.Req
	r.m.Begin(RxMatched, DirectRead, total, 0)
	d.src[0], d.nsrc = wire.RMAIOV{Addr: req.Addr, Len: total, Key: req.Key}, 1
	d.piece = uint64(r.pools.piece(req))
	r.m.StartReading(total)
	if total > 0 {
		r.pools.env.Q.Free(p)
		r.goOn()
		return
	}
	p.FillRDMA(device.WRRead, nil, d.lkey, req.Addr, mr.DeviceKey(req.Key))
	p.Off, p.Span = 0, r.span
	r.link.Address(p, r.ref)
	if err := r.pools.env.Q.Post(p); err != nil {
		r.pools.env.Q.Free(p)
		r.fail(fmt.Errorf("%s: %w", DirectRead, err))
		return
	}
	r.note(trail.Segment, uint8(device.WRRead), 0, 0)
	r.m.Reads(0)
}

// onREADRSP: the responder's first data, and its id for CTS (§3.3). The offset is
// 0 always.
func (d *reader) onREADRSP(p *peer.Packet) {
	r := d.r
	if !r.asks() || r.rsp {
		r.strange(p)
		return
	}
	id := p.SendID
	if !r.take(p) {
		return
	}
	r.rsp, r.says.SendID = true, id
	r.note(trail.Answer, uint8(wire.TypeREADRSP), 0, 1)
	r.gotData()
}

// Write has the rxe, which has begun with pkt, take a write of the peer's into memory here.
func (r *Rxe) Write(pkt *peer.Packet, to []Target) {
	x := r.ext()
	r.target = true
	for _, t := range to {
		if !x.use(t.Region) {
			r.pools.dropWrite(r, pkt)
			return
		}
		x.dst[x.ndst], x.lkeys[x.ndst] = t.Mem, t.Region.LKey(pkt.Link.Path)
		x.ndst++
	}
	x.held = responseCost
	pkt.Link.Hold(x.held)
	r.Match(nil)
}

func (p *Pools) dropWrite(r *Rxe, pkt *peer.Packet) {
	r.head = nil
	if r.m.Proto != EagerWrite {
		r.sendError(uint32(errno.ProvRMAAddr))
	}
	pkt.Free()
	r.says.HasData = false
	r.step(RxFail)
	r.settle()
}
