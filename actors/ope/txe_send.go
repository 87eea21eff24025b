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

// choose picks the subprotocol and starts the machine.
func (t *Txe) choose() error {
	q, l := t.q, t.link
	if l.Headerless && q.Flags&HasData != 0 && q.Data>>32 != 0 && q.Kind == KindSend {
		return errUserQPData
	}
	if q.Kind == KindAtomic && l.Headerless {
		return errUserQP
	}
	f := t.outgoing.factsOf()
	s, err := t.shape(&f)
	if err != nil {
		return err
	}
	if (s.Proto.readBased() || protos[s.Proto].rdma) && !t.useSource(s.Proto) {
		f.Source, f.Local = false, !t.pools.keyed(l) // closed between the two, or refused
		if s, err = t.shape(&f); err != nil {
			return err
		}
	}
	if s.Proto.dc() && !t.link.Can(wire.FeatureDeliveryComplete) && !t.unasked() {
		return errNoDC
	}
	if q.listed() {
		t.gathers |= gathersList
	}
	t.m.Start(&s)
	t.chose(s.Proto)
	if q.Len() >= t.pools.minGather {
		t.outgoing.gather()
	}
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

// factsOf are those of the operation's request.
func (t *outgoing) factsOf() Facts {
	q := t.q
	f := Facts{
		Headers: Headers{MTU: t.pools.env.MTU, RawAddr: t.rawAddr, ConnID: t.connID, HasData: q.Flags&HasData != 0},
		Kind:    q.Kind, Form: q.Form, Total: q.Len(), Tagged: q.Flags&Tagged != 0, Deliver: q.Flags&Deliver != 0,
	}
	if q.Kind != KindAtomic {
		t.pools.facts(&f, t.link, q)
	}
	if q.Flags&(Fence|Ordered|Follows) != 0 {
		t.inTurn(&f)
	}
	return f
}

// shape chooses by the facts. A write that takes several operations becomes the first of them.
func (t *Txe) shape(f *Facts) (Shape, error) {
	if t.q.Kind == KindWrite && t.q.listed() {
		if last, ok := f.splits(t.q); ok {
			if t.ord == nil {
				t.keep()
			}
			t.pools.split(t.q, t.link, last)
			source, local := f.Source, f.Local
			*f = t.outgoing.factsOf()
			f.Source, f.Local = f.Source && source, f.Local && local
		}
	}
	return f.Choose(t.pools.policy(t.link))
}

// longEnough is mayRead of a message that may go so on some path.
func (p *Pools) longEnough(l *peer.Link, n int) bool {
	least := p.Paths[l.Path].MinRead
	return n >= least && least > 0 && p.mayRDMARead(l)
}

// notReading takes the operation out of the count of those that are read.
func (t *outgoing) notReading() {
	if t.reads {
		t.reads = false
		t.pools.reads--
	}
}

// pump posts what the machine allows, while there is room and the peer takes
// packets. p is a packet entry to use first, or nil: one that was granted goes out even if
// back-off has begun since, or messages would leave in another order than their msg_ids'.
func (t *Txe) pump(p *device.Pke) {
	env := t.pools.env
	var sent sentBatch
	for n := 0; ; n++ {
		seg, ok := t.m.Next(t.pools.maxData)
		if !ok {
			break
		}
		if seg.Data && env.Config.Era.EndsAtPieces {
			t.outgoing.endAtPiece(&seg)
		}
		if !t.mayPost(&sent, seg, p != nil, n) {
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
		if t.turn.Span != 0 {
			if sent.add(p); over {
				t.noteSent(&sent)
			}
		}
		if over {
			t.arrivedAtOnce(p)
		}
		p = nil
		if !t.m.State.posts() {
			break
		}
	}
	if sent.n > 0 {
		t.noteSent(&sent)
	}
	if p != nil {
		env.Q.Free(p)
	}
}

// mayPost reports whether the segment may go out as the call's packet n. If not, the operation
// goes on by a message, or has failed. granted: there is an entry for it.
func (t *Txe) mayPost(sent *sentBatch, seg Segment, granted bool, n int) bool {
	l := t.link
	shy := seg.Data && !l.Handshaken || t.m.Proto == ErrorOnly && !l.Known()
	switch {
	case l.Backoff && !granted || shy:
		why := trail.ForBackoff
		if !l.Backoff {
			why = trail.ForHandshake
		}
		t.noteWaits(sent, t.hold.Queued(), why)
		t.hold.Await(l, t.ref, !shy)
	case t.m.Proto == ErrorOnly && !l.Can(wire.FeaturePeerError):
		t.must(t.m.Fail())
		t.outgoing.notUnderstood()
	case n == burst:
		if !t.moreQueued {
			t.moreQueued = true
			t.pools.env.Sh.Tell(t.ref, &t.more)
		}
	default:
		return true
	}
	return false
}

// ctsDataHeader is what libfabric reserves in a CTSDATA packet, whether or not it
// carries a connid.
const ctsDataHeader = 32

// post gives a segment to the device. over: it has arrived already, as only the last
// one of an operation may.
func (t *Txe) post(p *device.Pke, seg Segment) (over bool, err error) {
	env, l := t.pools.env, t.link
	p.Off, p.Span, p.Turn = seg.Off, t.turn.Span, t.turn.MsgID
	p.Owner, p.Peer, p.Watch = t.ref, l.Peer, l.Backoff
	p.To(l.AH, l.QPN, l.QKey)
	seg = t.fill(p, seg)
	if t.gathers != 0 {
		t.outgoing.gatherFrom(p)
	}
	borrowed := t.q.Flags&Borrowed != 0
	if borrowed {
		t.pools.detachBorrowed(p, false)
	}
	if over, err = env.Q.PostPrompt(p, seg.Off+seg.Len == t.m.end); err != nil {
		return false, fmt.Errorf("%s: %w", t.m.Proto, err)
	}
	if borrowed && !over {
		t.pools.detachBorrowed(p, true)
	}
	switch t.m.Proto {
	case DirectWrite:
	case ErrorOnly:
		env.Counters.PeerErrorsSent++
		fallthrough
	default:
		env.Counters.PacketsSent[p.Type()]++
	}
	if t.spent && !seg.Data && !over {
		l.Posted()
	}
	t.must(t.m.Posted(seg))
	return over, nil
}

// isREQ reports whether a packet of the operation's own is a request with a msg_id.
func (t *outgoing) isREQ(p *device.Pke) bool { return t.spent && wire.Type(p.Type()).IsREQ() }

// fillRDMA makes the entry a write of the segment into the peer's memory (§4.6).
func (t *outgoing) fillRDMA(p *device.Pke, seg Segment) Segment {
	q := t.q
	if q.listed() {
		seg = t.fillCut(p, seg)
	} else {
		r := t.source()
		var lkey uint32
		if r != nil {
			lkey = r.LKey(t.link.Path)
		}
		p.FillRDMA(device.WRWrite, q.Buf[seg.Off:][:seg.Len], lkey, q.Addr+seg.Off, mr.DeviceKey(q.Key))
		t.pools.spread(p, t.link, q, seg.Off, r)
	}
	if q.Flags&HasData != 0 {
		p.SetImm(uint32(q.Data))
	}
	return seg
}

// fill makes the entry a packet with the segment, or a write of it, and returns the segment,
// which may have become shorter.
func (t *outgoing) fill(p *device.Pke, seg Segment) Segment {
	q := t.q
	switch t.m.Proto {
	case DirectWrite:
		seg = t.fillRDMA(p, seg)
		t.note(trail.Segment, uint8(p.Kind()), seg.Off, uint32(seg.Len))
	case ReadResponse:
		t.fillResponse(p, seg)
	case CompareAtomic:
		p.Gather(t.header(p.Header(), seg), q.Buf, q.More.Compare)
	case Headerless:
		p.To(t.link.AH, uint16(t.link.UserQP.QPN), t.link.UserQP.QKey)
		p.Fill(nil, q.Buf)
		if q.Flags&Pieced != 0 {
			q.pack(p, 0, seg.Len)
		}
		if q.Flags&HasData != 0 {
			p.SetImm(uint32(q.Data))
		}
	default:
		h := t.header(p.Header(), seg)
		var payload []byte
		if seg.Len > 0 && q.Flags&Pieced == 0 {
			payload = q.Buf[seg.Off-t.base:][:seg.Len]
		}
		if p.Fill(h, payload); q.Flags&Pieced != 0 {
			q.pack(p, seg.Off, seg.Len)
		}
	}
	return seg
}
