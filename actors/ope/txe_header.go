package ope

import (
	"github.com/efactor/efactor/wire"
)

// header builds the packet's header for the segment.
func (t *outgoing) header(b []byte, seg Segment) []byte {
	env := t.pools.env
	if seg.Data {
		d := wire.CTSData{
			RecvID: t.peerID, SegLength: seg.Len, SegOffset: seg.Off,
			HasConnID: t.link.WantsConnID(), ConnID: env.Addr.ConnID(),
		}
		return d.Append(b)
	}
	q := t.q
	tag, dc := q.Flags&Tagged != 0, t.m.Proto.dc()
	var o wire.Options
	t.options(&o)
	switch t.m.Proto {
	case DCEager:
		h := wire.EagerRTM{Options: o, MsgID: t.turn.MsgID, Tagged: tag, Tag: q.Tag, DC: true, SendID: t.id}
		return h.Append(b)
	case Medium, DCMedium:
		h := wire.MediumRTM{
			Options: o, MsgID: t.turn.MsgID, Tagged: tag, Tag: q.Tag, DC: dc, SendID: t.id,
			MsgLength: t.m.Total, SegOffset: seg.Off,
		}
		return h.Append(b)
	case LongCTS, DCLongCTS:
		h := wire.LongCTSRTM{
			Options: o, MsgID: t.turn.MsgID, Tagged: tag, Tag: q.Tag, DC: dc, ReadNACK: t.nacked,
			MsgLength: t.m.Total, SendID: t.id, CreditRequest: t.pools.credits(t.m.Total),
		}
		return h.Append(b)
	case LongRead:
		from, pieces := t.readFrom()
		h := wire.LongReadRTM{
			Options: o, MsgID: t.turn.MsgID, Tagged: tag, Tag: q.Tag, MsgLength: t.m.Total, SendID: t.id,
			ReadIOVCount: pieces, ReadIOV: from,
		}
		return h.Append(b)
	case RuntRead:
		from, pieces := t.readFrom()
		h := wire.RuntReadRTM{
			Options: o, MsgID: t.turn.MsgID, Tagged: tag, Tag: q.Tag, MsgLength: t.m.Total, SendID: t.id,
			ReadIOVCount: pieces, ReadIOV: from, SegOffset: seg.Off, RuntLength: t.m.end,
		}
		return h.Append(b)
	case WriteAtomic, FetchAtomic, CompareAtomic, DCWriteAtomic:
		return t.atomicHeader(b, o)
	case EagerWrite, DCEagerWrite, LongCTSWrite, DCLongCTSWrite, LongReadWrite:
		return t.writeHeader(b, o)
	default: // AtomicResponse, ReceiptOnly, ErrorOnly
		return t.responseHeader(b)
	}
}

// options sets the optional headers of a request.
func (t *outgoing) options(o *wire.Options) {
	t.pools.options(o, t.q)
	t.link.Options(o, t.rawAddr, t.connID)
}

// options sets those that depend on the request.
func (p *Pools) options(o *wire.Options, q *Request) {
	if q.Flags&HasData != 0 {
		o.HasCQData, o.CQData = true, q.Data
		if q.Flags&Tagged != 0 && p.env.Config.Era.CQData32 {
			o.CQData = uint64(uint32(o.CQData))
		}
	}
}

// rtw builds the request of a write (§3.3, §4.1, §4.2).
func (t *outgoing) writeHeader(b []byte, o wire.Options) []byte {
	q, dc := t.q, t.m.Proto.dc()
	iov, n := q.rmaIOV(t.m.Total)
	switch t.m.Proto {
	case LongReadWrite:
		from, pieces := t.readFrom()
		h := wire.LongReadRTW{
			Options: o, RMAIOVCount: n, RMAIOV: iov, MsgLength: t.m.Total, SendID: t.id,
			ReadIOVCount: pieces, ReadIOV: from,
		}
		return h.Append(b)
	case LongCTSWrite, DCLongCTSWrite:
		h := wire.LongCTSRTW{
			Options: o, RMAIOVCount: n, RMAIOV: iov, MsgLength: t.m.Total, SendID: t.id,
			CreditRequest: t.pools.credits(t.m.Total), DC: dc,
		}
		return h.Append(b)
	default:
		h := wire.EagerRTW{Options: o, RMAIOVCount: n, RMAIOV: iov, DC: dc, SendID: t.id}
		return h.Append(b)
	}
}

// rta builds the request of an atomic (§3.3, §4.2).
func (t *outgoing) atomicHeader(b []byte, o wire.Options) []byte {
	q := t.q
	kind := [...]wire.RTAKind{AtomicWrite: wire.RTAWrite, AtomicFetch: wire.RTAFetch, AtomicCompare: wire.RTACompare}[q.Form]
	if t.m.Proto == DCWriteAtomic {
		kind = wire.RTADCWrite
	}
	n := len(q.Buf)
	if q.Form != AtomicWrite {
		n = len(q.More.Result)
	}
	h := wire.RTA{
		Options: o, Kind: kind, MsgID: t.turn.MsgID, Datatype: wire.Datatype(q.Type), Op: wire.AtomicOp(q.Op), RecvID: t.id, SendID: t.id,
		RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Addr: q.Addr, Len: uint64(n), Key: q.Key}},
	}
	return h.Append(b)
}

// readIOV says where the peer reads the whole of the buffer (§4.1).
func (t *outgoing) readFrom() (iov [wire.MaxIOV]wire.RMAIOV, n uint32) {
	if t.q.Flags&Pieced != 0 {
		return t.x.pieces.iov, t.x.pieces.n
	}
	iov[0] = wire.RMAIOV{Addr: t.x.addr, Len: t.m.Total, Key: t.x.key}
	return iov, 1
}

// credits is how many packets a request of so many bytes asks for at a time.
func (p *Pools) credits(total uint64) uint32 {
	n := uint64(p.Policy.Credits)
	if p.env.Config.Era.CreditsAsked {
		room := uint64(p.env.MTU - wire.CTSDataLen) // whatever else is in its CTSDATA
		n = min(max(n, (total+room-1)/room), 1<<31)
	}
	return uint32(n)
}
