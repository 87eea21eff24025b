package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// burst is how many packets an operation posts before others have their turn:
// one copy must not hold the shard for long.
const burst = 8

// onGrant: it is this message's turn. Choose the subprotocol (§3.2, protocol
// selection of libfabric 1.17 and later) and post what may go.
func (t *Txe) onGrant(p *device.Pke) {
	t.turn.Taken()
	if t.m.State == TxErr { // its peer or the endpoint ended meanwhile
		t.pools.env.Q.Free(p)
		t.settle()
		return
	}
	t.choose()
	t.pump(p)
	t.settle()
}

func (t *Txe) choose() {
	t.rawAddr, t.connID = t.link.Optional()
	total := int(t.m.Total)
	// What a packet holds besides its mandatory header.
	room := t.pools.env.MTU
	if t.rawAddr {
		room -= wire.RawAddrHdrLen
	}
	if t.connID {
		room -= wire.ConnIDHdrLen
	}
	if t.ord.Req.Flags&HasData != 0 {
		room -= wire.CQDataHdrLen
	}
	eager, medium, long := room-wire.EagerMsgRTMLen, room-wire.MediumMsgRTMLen, room-wire.LongCTSMsgRTMLen
	if t.ord.Req.Flags&Tagged != 0 {
		eager, medium, long = room-wire.EagerTagRTMLen, room-wire.MediumTagRTMLen, room-wire.LongCTSTagRTMLen
	}
	switch {
	case total <= eager:
		t.m.Start(Eager, uint64(total), 0, 0, 0)
	case total <= t.pools.Policy.MaxMedium:
		size, n := t.pools.Policy.Rounding.Cut(total, medium)
		t.m.Start(Medium, uint64(total), medium, size, n)
	default:
		t.m.Start(LongCTS, uint64(total), long, 0, 0)
	}
}

// pump posts what the machine allows, while there is room and the peer takes
// packets. p is a packet entry to use first, or nil.
func (t *Txe) pump(p *device.Pke) {
	env := t.pools.env
	for n := 0; ; n++ {
		seg, ok := t.m.Next(env.MTU - ctsDataHeader)
		if !ok {
			break
		}
		if t.link.Backoff || (seg.Data && !t.link.Handshaken) {
			t.hold.Await(t.link, t.ref, !seg.Data)
			break
		}
		if n == burst {
			if !t.moreQueued {
				t.moreQueued = true
				env.Sh.Tell(t.ref, &t.more)
			}
			break
		}
		if p == nil {
			if p = env.Q.Alloc(); p == nil {
				t.slotWaits = true
				env.Q.AwaitSlot(&t.slot)
				break
			}
		}
		if err := t.post(p, seg); err != nil {
			if !seg.Data {
				t.lostID(err)
			}
			t.fail(err)
			break
		}
		p = nil
	}
	if p != nil {
		env.Q.Free(p)
	}
}

// lostID: a packet that spent a msg_id failed for good. The other side would wait
// for that msg_id for ever, so it is failed until it comes back as a new endpoint.
func (t *Txe) lostID(err error) {
	err = fmt.Errorf("%w: msg_id %d is lost: %w", peer.ErrPeerFailed, t.turn.MsgID, err)
	t.pools.env.Sh.Tell(t.link.Peer, &peer.Remove{Err: err, Tell: true})
}

// ctsDataHeader is what libfabric reserves in a CTSDATA packet, whether or not it
// carries a connid.
const ctsDataHeader = 32

func (t *Txe) post(p *device.Pke, seg Segment) error {
	env := t.pools.env
	h := t.header(p.Header(), seg)
	p.Fill(h, t.ord.Req.Buf[seg.Off-t.ord.base:][:seg.Len])
	p.Off, p.Gen = seg.Off, t.id
	t.link.Address(p, t.ref)
	if err := env.Q.Post(p); err != nil {
		return fmt.Errorf("%s: %w", t.m.Proto, err)
	}
	env.Counters.PacketsSent[h[0]]++
	return t.m.Posted(seg)
}

// header builds the packet's header for the segment.
func (t *Txe) header(b []byte, seg Segment) []byte {
	if seg.Data {
		d := wire.CTSData{
			RecvID: t.peerID, SegLength: seg.Len, SegOffset: seg.Off,
			HasConnID: t.link.WantsConnID(), ConnID: t.pools.env.Addr.ConnID(),
		}
		return d.Append(b)
	}
	o := wire.Options{HasCQData: t.ord.Req.Flags&HasData != 0, CQData: t.ord.Req.Data}
	t.link.Options(&o, t.rawAddr, t.connID)
	tag := t.ord.Req.Flags&Tagged != 0
	switch t.m.Proto {
	case Medium:
		h := wire.MediumRTM{
			Options: o, MsgID: t.turn.MsgID, Tagged: tag, Tag: t.ord.Req.Tag,
			MsgLength: t.m.Total, SegOffset: seg.Off,
		}
		return h.Append(b)
	case LongCTS:
		h := wire.LongCTSRTM{
			Options: o, MsgID: t.turn.MsgID, Tagged: tag, Tag: t.ord.Req.Tag,
			MsgLength: t.m.Total, SendID: t.id, CreditRequest: uint32(t.pools.Policy.Credits),
		}
		return h.Append(b)
	default:
		h := wire.EagerRTM{Options: o, MsgID: t.turn.MsgID, Tagged: tag, Tag: t.ord.Req.Tag}
		return h.Append(b)
	}
}

// onPacket: the receiver grants a window.
func (t *Txe) onPacket(pkt *peer.Packet) {
	env := t.pools.env
	ok := pkt.Type == wire.TypeCTS && pkt.SendID == t.id && pkt.Link == t.link && t.busy
	if !ok {
		env.Counters.BadID++
		pkt.Free()
		return
	}
	id, n := pkt.RecvID, pkt.Granted
	pkt.Free()
	if err := t.m.CTS(n); err != nil {
		env.Counters.BadLength++
		return
	}
	t.peerID = id
	t.pump(nil)
	t.settle()
}
