package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// burst is how many packets an operation posts before others have their turn:
// one copy must not hold the shard for long.
const burst = 8

// onGrant: it is this operation's turn. Choose the subprotocol and post what may
// go.
func (t *Txe) onGrant(p *device.Pke) {
	t.turn.Taken()
	// A peer that takes data without headers sees no msg_id.
	t.spent = !t.turn.NoID && !t.link.Features.Has(wire.FeatureUserRecvQP)
	if t.m.State == TxErr { // its peer or the endpoint ended meanwhile
		t.pools.env.Q.Free(p)
		t.giveUp()
		t.settle()
		return
	}
	if err := t.choose(); err != nil {
		t.pools.env.Q.Free(p)
		t.fail(err)
		return
	}
	t.pump(p)
	t.settle()
}

// choose picks the subprotocol and starts the machine.
func (t *Txe) choose() error {
	t.rawAddr, t.connID = t.link.Optional()
	q := t.q
	h := Headers{MTU: t.pools.env.MTU, RawAddr: t.rawAddr, ConnID: t.connID, HasData: q.Flags&HasData != 0}
	if t.pools.isShort(q, t.link, &h) {
		n := uint64(len(q.Buf))
		t.m.Start(&Shape{Proto: Eager, Total: n, End: n, Seg: len(q.Buf), Parts: 1})
		t.chose()
		return nil
	}
	f := Facts{
		Headers: h, Kind: q.Kind, Form: q.Form, Total: len(q.Buf), Tagged: q.Flags&Tagged != 0,
		Deliver: q.Flags&Deliver != 0,
	}
	if q.Kind != KindAtomic {
		t.pools.facts(&f, t.link, q)
	} else if t.link.Features.Has(wire.FeatureUserRecvQP) {
		return errUserQP
	}
	s, err := Choose(&f, t.pools.policy(t.link))
	if err != nil {
		return err
	}
	if s.Proto.dc() && !t.link.Can(wire.FeatureDeliveryComplete) {
		return errNoDC
	}
	if (s.Proto.readBased() || protos[s.Proto].rdma) && !t.useSource(s.Proto) {
		f.Source, f.Local = false, !t.pools.Info.LocalKeys // closed between the two
		if s, err = Choose(&f, t.pools.policy(t.link)); err != nil {
			return err
		}
	}
	t.m.Start(&s)
	t.chose()
	if s.Proto.readBased() {
		t.reads = true
		t.pools.reads++
		if s.Proto == RuntRead {
			t.x.runt = int(s.End)
			t.link.Runt += t.x.runt
		}
	}
	if q.Kind != KindSend {
		t.member.Bound(t.link)
	}
	return nil
}

// isShort sees the common case, for which Choose has the same answer: a message that
// fits one packet.
func (p *Pools) isShort(q *Request, l *peer.Link, h *Headers) bool {
	if q.Kind != KindSend || q.Flags&Deliver != 0 || p.mayRead(l, len(q.Buf)) ||
		l.Features.Has(wire.FeatureUserRecvQP) {
		return false
	}
	return len(q.Buf) <= h.room(eagerHeader(q.Flags&Tagged != 0))
}

func eagerHeader(tagged bool) int {
	if tagged {
		return wire.EagerTagRTMLen
	}
	return wire.EagerMsgRTMLen
}

// useSource keeps the region of the buffer, if it lies in one.
func (t *outgoing) useSource(p Proto) bool {
	r := t.pools.Regions.Find(t.q.Buf)
	if r == nil {
		return !t.pools.Info.LocalKeys && protos[p].rdma
	}
	if !t.ext().use(r) {
		return false
	}
	return !p.readBased() || t.lend(r)
}

// source is the region of the buffer, nil if it has none in use.
func (t *outgoing) source() *mr.Region {
	if t.x == nil || t.x.n == 0 {
		return nil
	}
	return t.x.regions[0]
}

// notReading takes the operation out of the count of those that are read.
func (t *outgoing) notReading() {
	if t.reads {
		t.reads = false
		t.pools.reads--
	}
}

// pump posts what the machine allows, while there is room and the peer takes
// packets. p is a packet entry to use first, or nil.
func (t *Txe) pump(p *device.Pke) {
	env := t.pools.env
	var sent sentBatch
	for n := 0; ; n++ {
		seg, ok := t.m.Next(env.MTU - t.pools.dataHeader())
		if !ok {
			break
		}
		shy := seg.Data && !t.link.Handshaken || t.m.Proto == ErrorOnly && !t.link.Known()
		if t.link.Backoff || shy {
			why := trail.ForBackoff
			if !t.link.Backoff {
				why = trail.ForHandshake
			}
			t.noteWaits(&sent, t.hold.Queued(), why)
			t.hold.Await(t.link, t.ref, !shy)
			break
		}
		if t.m.Proto == ErrorOnly && !t.link.Can(wire.FeaturePeerError) {
			t.must(t.m.Fail()) // its HANDSHAKE says that it does not know PEER_ERROR
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
				t.noteWaits(&sent, t.slotWaits, trail.ForRoom)
				t.slotWaits = true
				env.Q.AwaitSlot(&t.slot)
				break
			}
		}
		over, err := t.post(p, seg)
		if err != nil {
			t.noteSent(&sent)
			t.fail(err)
			break
		}
		sent.add(p)
		if over {
			t.noteSent(&sent)
			t.arrived(p)
		}
		p = nil
	}
	t.noteSent(&sent)
	if p != nil {
		env.Q.Free(p)
	}
}

// ctsDataHeader is what libfabric reserves in a CTSDATA packet, whether or not it
// carries a connid.
const ctsDataHeader = 32

// post gives a segment to the device. over: it has arrived already, as only the last
// one of an operation may.
func (t *Txe) post(p *device.Pke, seg Segment) (over bool, err error) {
	env := t.pools.env
	p.Off = seg.Off
	if protos[t.m.Proto].rdma {
		t.fillRDMA(p, seg)
	} else {
		t.fill(p, seg)
	}
	t.link.Address(p, t.ref)
	if p.Span = t.turn.Span; p.Kind() != device.WRSend {
		t.note(trail.Segment, uint8(p.Kind()), seg.Off, uint32(seg.Len))
	}
	if t.m.Proto == Headerless {
		p.To(t.link.AH, uint16(t.link.UserQP.QPN), t.link.UserQP.QKey)
	}
	borrowed := t.q.Flags&Borrowed != 0
	if borrowed && !t.pools.Info.CopiesAtPost {
		p.Detach()
	}
	if over, err = env.Q.PostPrompt(p, seg.Off+seg.Len == t.m.end); err != nil {
		return false, fmt.Errorf("%s: %w", t.m.Proto, err)
	}
	if borrowed && !over && t.pools.Info.CopiesAtPost {
		p.Detach() // it may have to be sent again
	}
	if p.Kind() == device.WRSend {
		env.Counters.PacketsSent[p.Type()]++
		if t.m.Proto == ErrorOnly {
			env.Counters.PeerErrorsSent++
		}
	}
	if t.isREQ(p) {
		t.link.Posted()
	}
	t.must(t.m.Posted(seg))
	return over, nil
}

// isREQ reports whether a packet of the operation's own is a request with a msg_id.
func (t *outgoing) isREQ(p *device.Pke) bool { return t.spent && wire.Type(p.Type()).IsREQ() }

// fillRDMA makes the entry a write of the segment into the peer's memory (§4.6).
func (t *outgoing) fillRDMA(p *device.Pke, seg Segment) {
	q := t.q
	var lkey uint32
	if r := t.source(); r != nil {
		lkey = r.LKey(t.link.Path)
	}
	p.FillRDMA(device.WRWrite, q.Buf[seg.Off:][:seg.Len], lkey, q.Addr+seg.Off, uint32(q.Key))
	if q.Flags&HasData != 0 {
		p.SetImm(uint32(q.Data))
	}
}

// fill makes the entry a packet with the segment.
func (t *outgoing) fill(p *device.Pke, seg Segment) {
	q := t.q
	switch t.m.Proto {
	case ReadResponse:
		t.fillResponse(p, seg)
	case CompareAtomic:
		p.Gather(t.header(p.Header(), seg), q.Buf, q.More.Compare)
	case Headerless:
		p.Fill(nil, q.Buf)
		if q.Flags&HasData != 0 {
			p.SetImm(uint32(q.Data))
		}
	default:
		h := t.header(p.Header(), seg)
		var payload []byte
		if seg.Len > 0 {
			payload = q.Buf[seg.Off-t.base:][:seg.Len]
		}
		p.Fill(h, payload)
	}
}
