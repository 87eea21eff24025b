package ope

import (
	"fmt"
	"math"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/machine"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// Send begins an operation of ours with l: a message, a write or an atomic. It is over
// when Send returns if it had to wait for nothing; otherwise it goes on by messages. q
// is copied then. False: there are MaxOps operations, and nothing has happened.
func (p *Pools) Send(q *Request, l *peer.Link) (begun bool) {
	if p.txFree == nil && !p.growTx() {
		return false
	}
	t := p.txFree
	p.txFree, t.busy = t.next, true
	begun = true
	t.arm(q, l)
	if q.Kind != KindSend || q.Flags&(Deliver|Fence|Ordered|Follows) != 0 || p.prepares {
		t.prepare()
	}
	sh := p.env.Sh
	if !sh.Enter(t.ref) { // a message of its last use is under way
		l.SubmitLater(&t.ticket)
		t.keep()
		return begun
	}
	t.entered = true
	defer func() { // a panic, here or in the peer, is no failure of the caller
		if t.entered {
			t.entered = false
			t.pools.env.Sh.Rescue(t.ref, recover())
			t.keepIfBusy()
		}
	}()
	if pke := l.Submit(&t.ticket); pke != nil { // its turn has come at once
		t.onGrant(pke)
	}
	sh.Exit()
	t.entered = false
	t.keepIfBusy()
	return begun
}

// arm fills the txe for a request to l.
func (t *Txe) arm(q *Request, l *peer.Link) {
	t.q, t.link = q, l
	t.ticket.Ask(false, false)
}

// onGrant: it is this operation's turn. Choose the subprotocol and post what may
// go.
func (t *Txe) onGrant(p *device.Pke) {
	t.marks.spent = !t.ticket.NoID
	if t.m.State == TxErr { // its peer or the endpoint ended meanwhile
		t.pools.env.Q.Free(p)
		t.giveUp()
		t.settle()
		return
	}
	q, l := t.q, t.link
	t.rawAddr, t.connID = l.HasRawAddr, l.HasConnID
	n := len(q.Buf)
	if q.Kind == KindSend && q.Flags&(Deliver|HasIOV) == 0 && n+eagerHeaders(q.Flags) <= int(l.Room) && !t.pools.mayRead(l, n) {
		// The common case, for which Choose has the same answer: a message that fits one packet.
		t.m.StartEager(n)
		t.chose(Eager)
		if n >= t.pools.minGather {
			t.gather()
		}
		t.sendEager(p)
		return
	}
	if err := t.choose(); err != nil {
		t.pools.env.Q.Free(p)
		t.fail(err)
		return
	}
	if t.m.Proto == Eager {
		t.sendEager(p)
		return
	}
	t.pump(p)
	t.settle()
}

// mayRead reports whether a message of n bytes to the peer might go read-based.
func (p *Pools) mayRead(l *peer.Link, n int) bool { return n >= p.minRead && p.longEnough(l, n) }

// longEnough is the rest of mayRead, for a message that may be read on some path.
func (p *Pools) longEnough(l *peer.Link, n int) bool {
	least := p.Paths[l.Path].MinRead
	return n >= least && least > 0 && p.mayRDMARead(l)
}

// eagerHeaders is what an eager message's headers take up that depend on the request.
func eagerHeaders(f Flags) int {
	n := wire.EagerMsgRTMLen
	if f&Tagged != 0 {
		n = wire.EagerTagRTMLen
	}
	if f&HasData != 0 {
		n += wire.CQDataHdrLen
	}
	return n
}

// StartEager is Start for a message of n bytes in one packet, of a machine that is as Reset
// leaves it.
func (t *Tx) StartEager(n int) {
	t.Proto, t.seg, t.left = Eager, uint32(n), 1
	t.Total, t.end = uint64(n), uint64(n)
}

// sendEager posts the one packet of a message that fits it, in the entry that was granted. It goes out
// even if back-off has begun since, or messages would leave in another order than their msg_ids'.
// If it has arrived when the device took it, the operation is over.
func (t *Txe) sendEager(p *device.Pke) {
	env, q, l := t.pools.env, t.q, t.link
	p.To(l.AH, l.QPN, l.QKey)
	p.MsgID, p.Watch = t.ticket.MsgID, l.BackingOff()
	h := p.Header()
	if !t.rawAddr && q.Flags&HasData == 0 {
		n := wire.PutEager((*[wire.EagerRoom]byte)(h[:wire.EagerRoom]), t.ticket.MsgID, q.Flags&Tagged != 0, q.Tag, t.connID, env.ConnID)
		h = h[:n]
	} else {
		h = t.eagerRTM(h)
	}
	p.Fill(h, q.Buf)
	if t.marks.gathers != 0 {
		t.gatherFrom(p)
	}
	if p.Stay(q.Flags&Borrowed == 0); q.Flags&Borrowed != 0 {
		t.detachBorrowed(p, false)
	}
	over, err := env.Q.PostPrompt(p, true)
	if err != nil {
		t.unposted()
		t.fail(fmt.Errorf("%s: %w", Eager, err))
		env.Q.Free(p)
		return
	}
	env.Counters.PacketsSent[p.Type()]++
	if t.ticket.Span != 0 {
		t.leave(trail.Sent, p.Type(), t.m.Total, 1)
	}
	if over {
		env.Q.FreePrompt(p)
		l.Reached()
		if !t.m.Delivered() {
			t.violated(machine.NoEdge(TxDelivered, t.m.State))
			return
		}
		t.delivered()
		return
	}
	// Set the receivers of the completion only now that there will be one.
	p.Owner, p.Peer, p.Span, p.Off = t.ref, l.Peer, t.ticket.Span, 0
	if q.Flags&Borrowed != 0 {
		t.detachBorrowed(p, true)
	}
	l.Posted()
	if !t.m.Whole() {
		t.violated(machine.NoEdge(TxPostedAll, t.m.State))
	}
}

// detachBorrowed gives the caller its buffer back although the packet may have to be sent again, of
// an operation whose buffer is borrowed: before the packet is posted, or after it if the device copies
// at post.
func (t *Txe) detachBorrowed(p *device.Pke, posted bool) {
	if t.pools.Info.CopiesAtPost == posted {
		p.Detach()
	}
}

// chose notes the subprotocol, and what both sides know the operation by.
func (t *Txe) chose(s Proto) {
	t.pools.Mix.Chosen[s]++
	if t.ticket.Span != 0 {
		t.noteChosen(s)
	}
}

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
	f := t.factsOf()
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
	if s.Proto.dc() && !t.link.Can(wire.FeatureDeliveryComplete) && !t.pools.unasked(t.link) {
		return errNoDC
	}
	if q.hasIOVs() {
		t.marks.gathers |= gathersIOVs
	}
	t.m.Start(&s)
	t.chose(s.Proto)
	if q.Len() >= t.pools.minGather {
		t.gather()
	}
	if s.Proto.readBased() {
		t.marks.reads = true
		t.pools.reads++
		if s.Proto == RuntRead {
			t.x.runt = int(s.End)
			t.link.AddRunt(t.x.runt)
		}
	}
	if q.Kind != KindSend {
		t.member.Bound(t.link)
	}
	return nil
}

// factsOf are those of the operation's request.
func (t *Txe) factsOf() Facts {
	q := t.q
	f := Facts{
		MTU: t.pools.env.MTU, RawAddr: t.rawAddr, ConnID: t.connID, HasData: q.Flags&HasData != 0,
		Kind: q.Kind, Form: q.Form, Total: q.Len(), Tagged: q.Flags&Tagged != 0, Deliver: q.Flags&Deliver != 0,
	}
	if q.Kind != KindAtomic {
		t.pools.facts(&f, t.link, q)
	}
	if q.Flags&(Fence|Ordered|Follows) != 0 {
		t.adjustOrdered(&f)
	}
	return f
}

// shape chooses by the facts. A write that takes several operations becomes the first of them, and
// that may take several, too: the device writes from memory that is long enough to be registered, but
// not from a part of it.
func (t *Txe) shape(f *Facts) (Shape, error) {
	for t.q.Kind == KindWrite && t.q.hasIOVs() {
		last, ok := f.splits(t.q)
		if !ok {
			break
		}
		if t.entry == nil {
			t.keep()
		}
		t.q.split(t.pools, t.link, last)
		source, local := f.Source, f.Local
		*f = t.factsOf()
		f.Source, f.Local = f.Source && source, f.Local && local
	}
	return f.Choose(t.pools.policy(t.link))
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
		if seg.Data && (t.q.Flags&HasIOV != 0 || t.m.Proto == ReadResponse) && t.pools.cutsAtPieces {
			t.endAtPiece(&seg)
		}
		if !t.mayPost(&sent, seg, p != nil, n) {
			break
		}
		if p == nil {
			if p = env.Q.Alloc(); p == nil {
				t.noteWaits(&sent, t.marks.slotWaits, trail.ForRoom)
				t.marks.slotWaits = true
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
		if t.ticket.Span != 0 {
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
	shy := !l.Handshaken && (seg.Data || t.m.Proto == ErrorOnly && !l.Self)
	switch {
	case l.BackingOff() && !granted || shy:
		why := trail.ForBackoff
		if !l.BackingOff() {
			why = trail.ForHandshake
		}
		t.noteWaits(sent, t.blocked.Queued(), why)
		t.blocked.Await(l, t.ref, !shy)
	case t.m.Proto == ErrorOnly && !l.TakesAbort(t.x.abort.Memory):
		t.must(t.m.Fail())
		t.notUnderstood()
	case n == burst:
		if !t.marks.resumeQueued {
			t.marks.resumeQueued = true
			t.pools.env.Sh.Tell(t.ref, &t.resumeMsg)
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
	p.Off, p.Span, p.MsgID = seg.Off, t.ticket.Span, t.ticket.MsgID
	p.Owner, p.Peer, p.Watch = t.ref, l.Peer, l.BackingOff()
	p.To(l.AH, l.QPN, l.QKey)
	seg = t.fill(p, seg)
	if t.marks.gathers != 0 {
		t.gatherFrom(p)
	}
	borrowed := t.q.Flags&Borrowed != 0
	if p.Stay(!borrowed && t.m.Proto != ReadResponse); borrowed {
		t.detachBorrowed(p, false)
	}
	if over, err = env.Q.PostPrompt(p, seg.Off+seg.Len == t.m.end); err != nil && (t.m.Sent == 0 && !t.marks.nacked || !env.Q.PutOff(p, err)) {
		t.unposted()
		return false, fmt.Errorf("%s: %w", t.m.Proto, err)
	}
	if borrowed && !over {
		t.detachBorrowed(p, true)
	}
	switch t.m.Proto {
	case DirectWrite:
	case ErrorOnly:
		env.Counters.PeerErrorsSent++
		fallthrough
	default:
		env.Counters.PacketsSent[p.Type()]++
	}
	if t.marks.spent && !seg.Data && !over {
		l.Posted()
	}
	t.must(t.m.Posted(seg))
	return over, nil
}

// unposted: the device did not take a packet. If it is the first one, nothing has left of the operation.
func (t *Txe) unposted() {
	if t.m.Flying == 0 && t.m.Sent == 0 && !t.marks.nacked && t.link.Unposted(&t.ticket) {
		t.marks.spent = false
	}
}

// isREQ reports whether a packet of the operation's own is a request with a msg_id.
func (t *Txe) isREQ(p *device.Pke) bool { return t.marks.spent && wire.Type(p.Type()).IsREQ() }

// fill makes the entry a packet with the segment, or a write of it, and returns the segment,
// which may have become shorter.
func (t *Txe) fill(p *device.Pke, seg Segment) Segment {
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
		if q.Flags&HasIOV != 0 {
			q.pack(p, 0, seg.Len)
		}
		if q.Flags&HasData != 0 {
			p.SetImm(uint32(q.Data))
		}
	default:
		h := t.header(p.Header(), seg)
		var payload []byte
		if seg.Len > 0 && q.Flags&HasIOV == 0 {
			payload = q.Buf[seg.Off-t.base:][:seg.Len]
		}
		if p.Fill(h, payload); q.Flags&HasIOV != 0 {
			q.pack(p, seg.Off, seg.Len)
		}
	}
	return seg
}

// fillRDMA makes the entry a write of the segment into the peer's memory (§4.6).
func (t *Txe) fillRDMA(p *device.Pke, seg Segment) Segment {
	q := t.q
	if q.hasIOVs() {
		seg = t.fillCut(p, seg)
	} else {
		r := t.source()
		var lkey uint32
		if r != nil {
			lkey = r.LKey(t.link.Path)
		}
		p.FillRDMA(device.WRWrite, q.Buf[seg.Off:][:seg.Len], lkey, q.Addr+seg.Off, mr.DeviceKey(q.Key))
		q.spread(t.pools, p, t.link, seg.Off, r)
	}
	if q.Flags&HasData != 0 {
		p.SetImm(uint32(q.Data))
	}
	return seg
}

// fillCut makes the entry a write of what lies in one piece on both sides, which the segment
// becomes.
func (t *Txe) fillCut(p *device.Pke, seg Segment) Segment {
	q := t.q
	to := q.at(seg.Off, t.m.Total)
	local := q.from(seg.Off)
	seg.Len = min(seg.Len, uint64(len(local)), to.Len)
	local = local[:seg.Len]
	var lkey uint32
	if t.x != nil {
		if r := t.x.used.holding(local); r != nil {
			lkey = r.LKey(t.link.Path)
		}
	}
	p.FillRDMA(device.WRWrite, local, lkey, to.Addr, mr.DeviceKey(to.Key))
	return seg
}

// endAtPiece cuts a segment where the piece of memory ends in which it begins.
func (t *Txe) endAtPiece(seg *Segment) {
	var pieces [][]byte
	switch {
	case t.m.Proto == ReadResponse:
		pieces = t.x.src[:t.x.nsrc]
	case t.q.Kind == KindSend && t.q.Flags&HasIOV != 0:
		pieces = t.q.More.Local
	}
	end := uint64(0)
	for _, p := range pieces {
		if end += uint64(len(p)); end > seg.Off {
			seg.Len = min(seg.Len, end-seg.Off)
			return
		}
	}
}

// header builds the packet's header for the segment.
func (t *Txe) header(b []byte, seg Segment) []byte {
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
		h := wire.EagerRTM{Options: o, MsgID: t.ticket.MsgID, Tagged: tag, Tag: q.Tag, DC: true, SendID: t.id}
		return h.Append(b)
	case Medium, DCMedium:
		h := wire.MediumRTM{
			Options: o, MsgID: t.ticket.MsgID, Tagged: tag, Tag: q.Tag, DC: dc, SendID: t.id,
			MsgLength: t.m.Total, SegOffset: seg.Off,
		}
		return h.Append(b)
	case LongCTS, DCLongCTS:
		h := wire.LongCTSRTM{
			Options: o, MsgID: t.ticket.MsgID, Tagged: tag, Tag: q.Tag, DC: dc, ReadNACK: t.marks.nacked,
			MsgLength: t.m.Total, SendID: t.id, CreditRequest: t.credits(),
		}
		return h.Append(b)
	case LongRead:
		from, pieces := t.readFrom()
		h := wire.LongReadRTM{
			Options: o, MsgID: t.ticket.MsgID, Tagged: tag, Tag: q.Tag, MsgLength: t.m.Total, SendID: t.id,
			ReadIOVCount: pieces, ReadIOV: from,
		}
		return h.Append(b)
	case RuntRead:
		from, pieces := t.readFrom()
		h := wire.RuntReadRTM{
			Options: o, MsgID: t.ticket.MsgID, Tagged: tag, Tag: q.Tag, MsgLength: t.m.Total, SendID: t.id,
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
func (t *Txe) options(o *wire.Options) {
	if q := t.q; q.Flags&HasData != 0 {
		o.HasCQData, o.CQData = true, q.Data
	}
	t.link.Options(o, t.rawAddr, t.connID)
}

// eagerRTM builds the header of an eager message with other optional headers than the connid.
func (t *Txe) eagerRTM(b []byte) []byte {
	q := t.q
	h := wire.EagerRTM{MsgID: t.ticket.MsgID, Tagged: q.Flags&Tagged != 0, Tag: q.Tag}
	t.options(&h.Options)
	return h.Append(b)
}

// writeHeader builds the request of a write (§3.3, §4.1, §4.2).
func (t *Txe) writeHeader(b []byte, o wire.Options) []byte {
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
			CreditRequest: t.credits(), DC: dc,
		}
		return h.Append(b)
	default:
		h := wire.EagerRTW{Options: o, RMAIOVCount: n, RMAIOV: iov, DC: dc, SendID: t.id}
		return h.Append(b)
	}
}

// atomicHeader builds the request of an atomic (§3.3, §4.2).
func (t *Txe) atomicHeader(b []byte, o wire.Options) []byte {
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
		Options: o, Kind: kind, MsgID: t.ticket.MsgID, Datatype: wire.Datatype(q.Type), Op: wire.AtomicOp(q.Op), RecvID: t.id, SendID: t.id,
		RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Addr: q.Addr, Len: uint64(n), Key: q.Key}},
	}
	return h.Append(b)
}

// readFrom says where the peer reads the whole of the buffer (§4.1).
func (t *Txe) readFrom() (iov [wire.MaxIOV]wire.RMAIOV, n uint32) {
	if t.q.Flags&HasIOV != 0 {
		return t.x.iovs.iov, t.x.iovs.n
	}
	iov[0] = wire.RMAIOV{Addr: t.x.addr, Len: t.m.Total, Key: t.x.key}
	return iov, 1
}

// credits is how many packets a long-CTS request asks for at a time.
func (t *Txe) credits() uint32 {
	return uint32(t.pools.Policy.Credits)
}

// onPacket takes what the other side sends for the operation. An answer that does
// not fit is counted and dropped: an id is a number that anybody may write.
func (t *Txe) onPacket(pkt *peer.Packet) {
	env := t.pools.env
	if !t.busy || pkt.Link != t.link {
		env.Counters.BadID++
		pkt.Free()
		return
	}
	if pkt.Type == wire.TypePeerError && pkt.Emitter != 0 && pkt.MsgID != t.spentID() {
		env.Counters.BadID++
		pkt.Free()
		return
	}
	if t.m.State == TxErr && pkt.OfOrphan(t.id) {
		t.pools.env.Sh.Call(t.pools.env.Endpoint, pkt.Arrive())
		return
	}
	t.progressed()
	var err error
	switch pkt.Type {
	case wire.TypeCTS:
		if err = t.m.CTS(pkt.Granted); err == nil {
			t.note(trail.Window, 1, pkt.Granted, 0)
			t.peerID, t.marks.hasPeer = pkt.RecvID, true
			if t.c.state == CallerEnding {
				t.must(t.c.Step(CallerCTS))
				t.must(t.m.Fail())
				t.giveUp()
			}
		}
	case wire.TypeReceipt:
		err = t.m.Answer(receipt)
	case wire.TypeEOR:
		if err = t.m.Answer(eor); err == nil {
			t.notReading()
		}
	case wire.TypeATOMRSP:
		err = t.onFetched(pkt)
	case wire.TypeReadNACK:
		err = t.onNACK()
	case wire.TypePeerError:
		env.Counters.Aborted++
		t.must(t.m.Fail())
		t.err = firstError(t.err, remoteError(pkt.Errno))
		t.notReading()
	default:
		err = ErrViolation
	}
	answer := pkt.Type
	pkt.Free()
	if err != nil {
		env.Counters.BadLength++
		return
	}
	if answer != wire.TypeCTS && answer != wire.TypeReadNACK {
		t.note(trail.Answer, uint8(answer), 0, 1)
	}
	t.pump(nil)
	t.settle()
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// remoteError is what PEER_ERROR means for an operation. The code is the wire's and
// may be anything.
func remoteError(prov uint32) error {
	e := &peer.RemoteError{Err: peer.ErrAborted, Provider: errno.Provider(min(prov, math.MaxUint16))}
	if e.Provider == errno.ProvRMAAddr {
		e.Err = peer.ErrRefused
	}
	return e
}

// onFetched: what was in the peer's memory before a fetch or compare.
func (t *Txe) onFetched(pkt *peer.Packet) error {
	q := t.q
	if q.Kind != KindAtomic {
		return ErrViolation
	}
	if err := t.m.Answer(atomRsp); err != nil {
		return err
	}
	if t.c.Told() {
		return nil
	}
	if len(pkt.Payload) != len(q.More.Result) {
		t.must(t.m.Fail())
		t.err = fmt.Errorf("%w: %d bytes fetched, not %d", errno.ErrIO, len(pkt.Payload), len(q.More.Result))
		return nil
	}
	copy(q.More.Result, pkt.Payload)
	return nil
}

// onNACK: the receiver cannot read our memory, so what it lacks goes by long-CTS:
// of a message with the same msg_id and an empty request that the receiver finds
// past its order; of a write with a fresh request (§4.7).
func (t *Txe) onNACK() error {
	s := Shape{Proto: LongCTS, Total: t.m.Total, End: t.m.Total, Sent: t.m.Sent, Parts: 1}
	if t.q.Flags&Deliver != 0 {
		s.Proto = DCLongCTS
	}
	if t.m.Proto == LongReadWrite {
		s = t.writeAgain()
	}
	if t.c.state == CallerRevoked {
		t.err = t.takenBack() // what it would go from now
	}
	if t.err != nil && t.m.State == TxAwait && t.m.Proto.readBased() {
		// The caller has its buffer back, and no copy was made.
		t.pools.env.Counters.NACKsRecv++
		t.note(trail.Answer, uint8(wire.TypeReadNACK), 0, 1)
		t.must(t.m.Fail())
		switch {
		case !t.marks.spent: // the target has ended the write already
		case t.link.TakesAbort(false):
			a := t.abort()
			t.sendAborted(&a)
		default:
			t.lostID(t.err)
		}
		return nil
	}
	if err := t.m.NACK(&s); err != nil {
		return err
	}
	t.pools.env.Counters.NACKsRecv++
	t.note(trail.Answer, uint8(wire.TypeReadNACK), 0, 1)
	t.x.unlend(t.pools)
	t.gather()
	t.chose(s.Proto)
	t.marks.nacked = true
	t.rawAddr, t.connID = t.link.HasRawAddr, t.link.HasConnID
	t.notReading()
	return nil
}

// writeAgain is how a write goes whose data the target cannot read. A short one fits
// a packet; long-CTS is for what does not.
func (t *Txe) writeAgain() Shape {
	t.rawAddr, t.connID = t.link.HasRawAddr, t.link.HasConnID
	q := t.q
	f := Facts{
		MTU: t.pools.env.MTU, RawAddr: t.rawAddr, ConnID: t.connID, HasData: q.Flags&HasData != 0,
		Kind: KindWrite, Total: q.Len(), Remotes: q.remotes(), Deliver: q.Flags&Deliver != 0,
	}
	return f.write(t.pools.policy(t.link))
}

// notReading takes the operation out of the count of those that are read.
func (t *Txe) notReading() {
	if t.marks.reads {
		t.marks.reads = false
		t.pools.reads--
	}
}

// prepareOrder sets what few operations ask of the peer's line: a feature, or that earlier
// operations be over, see peer.Turn.Order.
func (t *Txe) prepareOrder() {
	q := t.q
	updates := q.Kind == KindAtomic && q.Form == AtomicWrite
	if q.Flags&Deliver != 0 && (q.Kind == KindSend || updates) && !t.pools.unasked(t.link) {
		t.ticket.Need(wire.FeatureDeliveryComplete)
	}
	if q.Flags&(Fence|Ordered|Follows) == 0 {
		return
	}
	if q.Flags&Ordered != 0 && updates {
		t.ticket.Await = true // for the peer may know no RECEIPT
	}
	t.ext()
	awaitEarlier(&t.ticket, q)
}

// awaitEarlier makes the turn of a request with Fence or Ordered wait for those before it.
func awaitEarlier(t *peer.Turn, q *Request) {
	var kind settings.Kinds
	if q.Flags&Ordered != 0 {
		switch q.Kind {
		case KindSend:
			kind = settings.Sends
		case KindWrite:
			kind = settings.Writes
		case KindRead:
			kind = settings.Reads
		default:
			kind = settings.Atomics
		}
	}
	t.Order(kind, q.Flags&Fence != 0, q.Flags&Follows != 0)
}

// adjustOrdered makes what is sent in an order fit for that: writes and updates under an order end
// when the peer has carried them out, if it can say so. What the device does by itself may
// overtake packets that the peer's device has, but its process has not handled; so a write
// goes by packets, too, if there have been such.
func (t *Txe) adjustOrdered(f *Facts) {
	q := t.q
	if q.Flags&Ordered != 0 && q.Kind != KindSend && t.link.Can(wire.FeatureDeliveryComplete) {
		q.Flags |= Deliver
		f.Deliver = true
	}
	if unconfirmedRMA(t.pools.env) {
		f.CanWrite = false
	}
}

// unconfirmedRMA reports whether writes or updates have gone out of which only their arrival at a
// device was heard.
func unconfirmedRMA(e *peer.Env) bool {
	c := &e.Counters
	n := &c.PacketsSent
	return n[wire.TypeEagerRTW] > c.Probes || n[wire.TypeLongCTSRTW] > 0 || n[wire.TypeWriteRTA] > 0
}
