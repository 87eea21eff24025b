package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// Ask arms the rxe for a read of ours from l's memory and returns its place in the
// peer's line.
func (r *Rxe) Ask(ord *Order, l *peer.Link) *peer.Turn {
	r.arm(l)
	r.ord = ord
	r.m.Begin(RxAsk, ProtoNone, uint64(len(ord.Req.Buf)), 0)
	r.stored, r.msgID, r.sendID, r.tag, r.data = 0, 0, 0, 0, 0
	r.hasData, r.tagged, r.head, r.tail = false, false, nil, nil
	ord.Follow(r.pools.env.Trail, l)
	r.span, r.got, r.gotPackets = ord.Span, 0, 0
	r.member.BoundInLine()
	t := &r.ext().turn
	t.Link, t.Span = l, r.span
	t.Ask(true, !r.pools.env.Config.Era.RMANoWait)
	return t
}

// onGrant: it is this read's turn. Choose the subprotocol and ask for the data
// (§3.3), or read it (§4.1).
func (r *Rxe) onGrant(p *device.Pke) {
	r.x.turn.Taken()
	q := r.pools.env.Q
	if r.m.State != RxAsk {
		q.Free(p)
		r.settle()
		return
	}
	req := &r.ord.Req
	rawAddr, connID := r.link.Optional()
	f := Facts{
		Headers: Headers{MTU: r.pools.env.MTU, RawAddr: rawAddr, ConnID: connID}, Kind: KindRead, Total: len(req.Buf),
	}
	r.pools.facts(&f, r.link, req)
	s, err := Choose(&f, r.pools.policy(r.link))
	if err != nil {
		q.Free(p)
		r.fail(err)
		return
	}
	_ = r.m.Step(RxAsked) // from RXE_ASK
	r.pools.Mix.Chosen[s.Proto]++
	ids := uint64(0)
	if s.Proto != DirectRead {
		ids = requestConnids(r.link)
	}
	r.note(trail.Chosen, uint8(s.Proto), ids, r.id)
	r.member.Bound()
	if s.Proto == DirectRead {
		r.readDirect(p, s.Total)
		return
	}
	r.m.Begin(RxMatched, s.Proto, s.Total, s.Total)
	if r.pools.env.Config.Era.RTRWhole {
		s.Window = min(s.Total, maxRTRWindow)
	}
	r.m.Granted(s.Window)
	h := wire.RTR{
		RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Addr: req.Addr, Len: s.Total, Key: req.Key}},
		MsgLength: s.Total, RecvID: r.id, RecvLength: uint32(s.Window), LongCTS: s.Proto == LongCTSRead,
	}
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

// readDirect has the device read the peer's memory. p is an entry for the first
// request.
func (r *Rxe) readDirect(p *device.Pke, total uint64) {
	x, req := r.x, &r.ord.Req
	r.m.Begin(RxMatched, DirectRead, total, 0)
	x.src[0], x.nsrc = wire.RMAIOV{Addr: req.Addr, Len: total, Key: req.Key}, 1
	if m := r.pools.Regions.Find(req.Buf); m != nil && x.use(m) {
		x.lkey = m.LKey()
	}
	r.m.StartReading(total)
	if total > 0 {
		r.pools.env.Q.Free(p)
		r.goOn()
		return
	}
	p.FillRDMA(device.WRRead, nil, x.lkey, req.Addr, uint32(req.Key))
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
func (r *Rxe) onREADRSP(p *peer.Packet) {
	if !r.asks() || r.rsp {
		r.strange(p)
		return
	}
	id := p.SendID
	if !r.take(p) {
		return
	}
	r.rsp, r.sendID = true, id
	r.note(trail.Answer, uint8(wire.TypeREADRSP), 0, 1)
	r.checkComplete()
	r.goOn()
}

// Write arms the rxe for a write of the peer's into memory here, and returns the
// message that makes it go on; nil: a region is being closed.
func (r *Rxe) Write(pkt *peer.Packet, to []Target) *Matched {
	x := r.ext()
	r.Begin(pkt)
	r.target = true
	for _, t := range to {
		if !x.use(t.Region) {
			r.pools.dropWrite(r, pkt)
			return nil
		}
		x.dst[x.ndst], x.lkeys[x.ndst] = t.Mem, t.Region.LKey()
		x.ndst++
	}
	x.held = responseCost
	if !pkt.Link.Hold(x.held) {
		r.pools.env.Sh.Tell(pkt.Link.Peer, &peer.Remove{Err: peer.ErrHoard, Tell: true})
	}
	r.told++
	return &r.matched
}

func (p *Pools) dropWrite(r *Rxe, pkt *peer.Packet) {
	r.head, r.tail = nil, nil
	if r.m.Proto != EagerWrite {
		r.sendError(uint32(errno.ProvRMAAddr))
	}
	pkt.Free()
	_ = r.m.Step(RxFail) // from RXE_INIT
	r.hasData = false
	r.settle()
}
