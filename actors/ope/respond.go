package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// responseCost is what an answer under way costs, accounted to the peer that asked.
const responseCost = 1280

// response takes a txe for an answer to l's request with the id that l gave it;
// nil: there are too many.
func (p *Pools) response(l *peer.Link, id uint32, hold int) *Txe {
	t := p.GetTx()
	if t == nil {
		p.env.Counters.NoRoom++
		return nil
	}
	t.entry = p.Entries.Get(&Request{}, p.env.Sh.Now())
	t.q, t.link = &t.entry.Req, l
	t.lastProgress = p.env.Sh.Now()
	t.c.Start(false)
	t.ticket.Answers()
	l.Join(&t.member, t.ref)
	t.slot.Control = true
	t.rawAddr, t.connID = false, false
	t.peerID, t.marks.hasPeer = id, true
	x := t.ext()
	x.charged = responseCost + hold
	l.Charge(x.charged)
	return t
}

// respond lets the answer go out.
func (t *Txe) respond(s *Shape) {
	t.m.Start(s)
	sh := t.pools.env.Sh
	if !sh.Enter(t.ref) {
		t.marks.resumeQueued = true
		sh.Tell(t.ref, &t.resumeMsg)
		return
	}
	defer sh.Leave(t.ref)
	t.pump(nil)
	t.settle()
}

// Target is a piece of registered memory that a request names.
type Target struct {
	Region *mr.Region
	Mem    []byte
}

// RespondRead answers an RTR with the contents of the memory: READRSP, then CTSDATA in
// windows of which the first is the request's (§3.3).
func (p *Pools) RespondRead(pkt *peer.Packet, from []Target) {
	window := pkt.Length
	if pkt.Type == wire.TypeLongCTSRTR {
		window = min(pkt.Ext.Window, window)
	}
	if window == 0 && pkt.Length > 0 {
		p.env.Counters.BadLength++
		return
	}
	t := p.response(pkt.Link, pkt.RecvID, 0)
	if t == nil {
		return
	}
	for _, f := range from {
		if !t.x.used.use(f.Region) {
			t.abandonResponse()
			p.refuse(pkt.Link, pkt.RecvID)
			return
		}
		t.x.src[t.x.nsrc] = f.Mem
		t.x.nsrc++
	}
	if pkt.Length > uint64(p.Paths[pkt.Link.Path].MaxCopy) {
		t.marks.gathers = gathersMemory
	}
	proto := ShortRead
	if pkt.Type == wire.TypeLongCTSRTR {
		proto = LongCTSRead
	}
	t.noteAnswering(trail.TargetRead, proto, pkt.Length, pkt.RecvID)
	first := min(uint64(p.env.MTU-wire.READRSPLen), window)
	t.respond(&Shape{Proto: ReadResponse, Total: pkt.Length, End: pkt.Length, Seg: int(first), Parts: 1, Window: window})
}

// abandonResponse: the memory is being closed, just now.
func (t *Txe) abandonResponse() {
	t.must(t.m.Fail())
	t.settle()
}

// RespondAtomic answers a fetch or compare with what was in memory before, n bytes
// that fill writes.
func (p *Pools) RespondAtomic(pkt *peer.Packet, n int, fill func([]byte) error) error {
	t := p.response(pkt.Link, pkt.RecvID, n)
	if t == nil {
		return nil
	}
	if n > 0 {
		t.x.block = p.env.Pool.Block(n)
		if err := fill(t.x.block); err != nil {
			t.abandonResponse()
			return err
		}
	}
	t.q.Buf = t.x.block
	proto := FetchAtomic
	if pkt.Type == wire.TypeCompareRTA {
		proto = CompareAtomic
	}
	t.noteAnswering(trail.TargetAtomic, proto, uint64(n), pkt.MsgID)
	t.respond(&Shape{Proto: AtomicResponse, Total: uint64(n), End: uint64(n), Seg: n, Parts: 1})
	return nil
}

// SendReceipt lets a requester know that its atomic was carried out (§4.2). The msg_id
// of such a RECEIPT is 0 in all releases.
func (p *Pools) SendReceipt(l *peer.Link, id uint32) {
	if t := p.response(l, id, 0); t != nil {
		t.respond(&Shape{Proto: ReceiptOnly, Parts: 1})
	}
}

// Abort is what PEER_ERROR says: which operation is over, and why.
type Abort struct {
	MsgID   uint32         // of a message or atomic, else 0
	OpID    uint32         // the id that the other side has given out for it, wire.NoOpID: none
	Emitter wire.Emitter   // our part in it
	Memory  bool           // it is no message, but a request for memory
	Unseen  bool           // nothing of it has arrived, perhaps
	Errno   errno.Provider // why
	Spent   bool           // MsgID is ours, and the peer may not have seen the message
}

// skips reports whether the peer waits for the msg_id for ever if it does not hear of the end.
func (a *Abort) skips() bool { return a.Spent && a.OpID == wire.NoOpID }

// peerError is the packet. The sender of a message names that by its msg_id alone; main of August
// 2026 had the id instead where it knew it.
func (p *Pools) peerError(a *Abort) wire.PeerError {
	h := wire.PeerError{
		Form: p.env.Config.Habits.PeerErrors, HasConnID: true, ConnID: p.env.ConnID,
		OpID: a.OpID, ProvErrno: uint32(a.Errno),
	}
	if h.Form != wire.PeerErrorForm20 {
		if h.MsgID, h.Emitter = a.MsgID, a.Emitter; a.Emitter == wire.EmitterTX && !a.Memory {
			h.OpID = wire.NoOpID
		}
		return h
	}
	switch {
	case a.OpID != wire.NoOpID:
	case a.Unseen:
		h.OpID, h.RefKind = a.MsgID, wire.RefMsgIDSkip
	default:
		h.OpID, h.RefKind = a.MsgID, wire.RefMsgID
	}
	return h
}

// namesOps reports whether the sender of a message names it by the other side's id of it.
func (p *Pools) namesOps() bool { return p.env.Config.Habits.PeerErrors == wire.PeerErrorForm20 }

// SendError reports the end of an operation to a peer that knows PEER_ERROR. Whether it
// does is seen when its HANDSHAKE is there, which a request may have overtaken. One that has
// failed gets it if it comes back. False: nothing is sent.
func (p *Pools) SendError(l *peer.Link, a *Abort) bool {
	if l.Buried() || p.Closing || !l.MayTakeAbort(a.Memory) {
		return false
	}
	if l.Err != nil {
		h := p.peerError(a)
		l.AddPendingAbort(h.Append(nil), a.Memory, a.skips())
		return true
	}
	t := p.response(l, a.OpID, 0)
	if t == nil {
		return false
	}
	t.marks.hasPeer = false // a PEER_ERROR that fails is not reported in turn
	t.x.abort = *a
	t.respond(&Shape{Proto: ErrorOnly, Parts: 1})
	return true
}

// SendOver tells a peer that an operation has ended which it knows by an id of its own.
func (p *Pools) SendOver(l *peer.Link, id uint32) bool {
	// The sender of a message has named that by its msg_id, which is enough but for main of August 2026.
	return p.SendError(l, &Abort{OpID: id, Emitter: wire.EmitterTX, Memory: !p.namesOps(), Errno: errno.ProvPeerAborted})
}

// refuse tells a peer that its request for memory, which it knows by id, is refused.
func (p *Pools) refuse(l *peer.Link, id uint32) {
	p.SendError(l, &Abort{OpID: id, Emitter: wire.EmitterRX, Memory: true, Errno: errno.ProvRMAAddr})
}

func (t *Txe) responseHeader(b []byte) []byte {
	id := t.pools.env.ConnID
	switch t.m.Proto {
	case AtomicResponse:
		h := wire.ATOMRSP{HasConnID: true, ConnID: id, RecvID: t.peerID, SegLength: t.m.Total}
		return h.Append(b)
	case ReceiptOnly:
		h := wire.Receipt{HasConnID: true, ConnID: id, TxID: t.peerID}
		return h.Append(b)
	default:
		h := t.pools.peerError(&t.x.abort)
		return h.Append(b)
	}
}

// fillResponse makes the entry a READRSP, or CTSDATA of one.
func (t *Txe) fillResponse(p *device.Pke, seg Segment) {
	var h []byte
	if seg.Data {
		h = t.header(p.Header(), seg)
	} else {
		rsp := wire.READRSP{HasConnID: true, ConnID: t.pools.env.ConnID, RecvID: t.peerID, SendID: t.id, SegLength: seg.Len}
		h = rsp.Append(p.Header())
	}
	var pieces [wire.MaxIOV][]byte
	n := sliceIOVs(&pieces, t.x.src[:t.x.nsrc], seg.Off, seg.Len)
	if n == 1 {
		p.Fill(h, pieces[0])
		return
	}
	p.Gather(h, pieces[:n]...)
}
