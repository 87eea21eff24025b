package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// onMatched: there is a place for the data. The packets that came already are copied there.
func (r *Rxe) onMatched() {
	if !r.m.move(RxMatch) {
		if r.m.State == RxErr {
			r.settle() // the peer failed while the match was under way
		} else {
			r.noStep(RxMatch)
		}
		return
	}
	if !r.fresh {
		r.lastProgress = r.pools.env.Sh.Now()
	}
	r.discharge()
	for p := r.head; p != nil; p = r.head {
		if r.head = p.Next; !r.storePacket(p) && r.m.State != RxMatched {
			return
		}
	}
	if r.tail != nil {
		r.tail = nil
	}
	if r.x != nil && r.m.Proto.readBased() {
		if r.x.startReading(); !r.busy || r.m.State != RxMatched {
			return
		}
	}
	r.gotData()
	if r.m.State == RxMatched && r.link.Err != nil {
		r.fail(r.link.Err) // the rest will not come
	}
}

// onWhole is onMatched of an eager message that has just come: nothing has happened to it yet, and
// its one packet holds all of it.
func (r *Rxe) onWhole() {
	p := r.head
	if o := &r.entry.Req; o.Flags&(Discard|HasIOV) == 0 {
		r.pools.env.Counters.Copied += uint64(len(p.Payload))
		copy(o.Buf, p.Payload)
	} else {
		r.placeWhole(p)
	}
	r.noteData(p)
	r.head = nil
	p.Free()
	if !r.m.Whole() {
		r.noStep(RxWhole)
		return
	}
	if r.span != 0 {
		r.settle()
		return
	}
	if !r.c.move(CallerOutcome) {
		r.settle()
		return
	}
	r.handReceived()
	r.pools.Entries.Put(r.entry)
	r.freeRx() // since nothing is under way, nor was
}

// placeWhole is the part of onWhole for a request that has no single buffer: one that discards the
// message, or has several pieces.
func (r *Rxe) placeWhole(p *peer.Packet) {
	if o := &r.entry.Req; o.Flags&Discard == 0 {
		r.pools.env.Counters.Copied += uint64(len(p.Payload))
		o.scatter(0, p.Payload)
	}
}

func (r *Rxe) onUnexpected() {
	r.underWay--
	if r.m.State == RxErr {
		r.settle() // the peer failed while this was under way
		return
	}
	if r.m.State != RxInit {
		return // matched already, by a receive posted in the same turn
	}
	if !r.step(RxNoRecv) {
		return
	}
	r.note(trail.Unexpected, 0, 0, 0)
	r.charged = true
	r.link.Charge(unexpectedCost)
	for p := r.head; p != nil; p = p.Next {
		p.Own()
	}
}

// unexpectedCost is what a message that waits for a receive costs beside its
// packets: with it TotalMemory is used up before the operations are.
const unexpectedCost = 1536

// discharge gives that back.
func (r *Rxe) discharge() {
	if r.charged {
		r.charged = false
		r.link.Uncharge(unexpectedCost)
	}
}

// Write has the rxe, which has begun with pkt, receive a write of the peer's into memory here.
func (r *Rxe) Write(pkt *peer.Packet, to []Target) {
	x := r.ext()
	r.target = true
	for _, t := range to {
		if !x.used.use(t.Region) {
			r.dropWrite(pkt)
			return
		}
		x.dst[x.ndst], x.lkeys[x.ndst] = t.Mem, t.Region.LKey(pkt.Link.Path)
		x.ndst++
	}
	x.charged = responseCost
	pkt.Link.Charge(x.charged)
	r.Match(nil)
}

// dropWrite refuses a write whose memory is being closed.
func (r *Rxe) dropWrite(pkt *peer.Packet) {
	r.head = nil
	if r.m.Proto != EagerWrite {
		r.sendError(errno.ProvRMAAddr)
	}
	pkt.Free()
	r.first.HasData = false
	r.step(RxFail)
	r.settle()
}

// onPacket takes a further packet: a segment of a message, CTSDATA, READRSP, the
// replacement of a refused message, or PEER_ERROR.
func (r *Rxe) onPacket(p *peer.Packet) {
	if !r.busy || p.Link != r.link || r.m.State.over() {
		if r.busy && p.Link == r.link && p.OfOrphan(r.id) {
			r.pools.env.Sh.Call(r.pools.env.Endpoint, p.Arrive())
			return
		}
		r.dropBadID(p)
		return
	}
	r.progressed()
	switch {
	case p.Type == wire.TypePeerError && p.Emitter != 0 && p.MsgID != r.msgID():
		r.dropBadID(p)
	case p.Type == wire.TypePeerError:
		r.onAborted(p)
	case r.x == nil && (p.Nack || p.Type == wire.TypeREADRSP):
		r.dropBadID(p)
	case p.Nack:
		r.x.onReplaced(p)
	case p.Multi != nil:
		r.onSegment(p)
	case p.RecvID != r.id || r.m.State != RxMatched:
		r.dropBadID(p)
	case p.Type == wire.TypeREADRSP:
		r.x.onREADRSP(p)
	case p.Type == wire.TypeCTSData:
		r.storePacket(p)
		r.gotData()
	default:
		r.dropBadID(p)
	}
}

func (r *Rxe) onSegment(p *peer.Packet) {
	if p.MsgID != r.first.MsgID || r.m.State == RxAnswer {
		r.dropBadID(p)
		return
	}
	if r.m.State == RxMatched {
		r.storePacket(p)
		r.gotData()
		return
	}
	if r.m.State == RxUnexp {
		p.Own()
	}
	r.stored += uint64(len(p.Payload))
	p.Next = nil
	switch {
	case r.head == nil:
		r.head = p
	case r.tail == nil:
		r.head.Next, r.tail = p, p
	default:
		r.tail.Next, r.tail = p, p
	}
}

// storePacket copies a packet's payload to its place; what has no room there is dropped
// (truncation). False: the packet does not fit.
func (r *Rxe) storePacket(p *peer.Packet) bool {
	n := uint64(len(p.Payload))
	if windowed := p.Type == wire.TypeCTSData || p.Type == wire.TypeREADRSP; !r.m.Take(p.Offset, n, windowed) {
		r.misfit(p, r.m.misfit(p.Offset, n, windowed))
		return false
	}
	if !r.drops() && !(p.Placed && r.has(p)) {
		r.pools.env.Counters.Copied += n
		if o := r.entry; o == nil || o.Req.Flags&HasIOV != 0 {
			r.store(p.Offset, p.Payload)
		} else if b := o.Req.Buf; p.Offset < uint64(len(b)) {
			copy(b[p.Offset:], p.Payload)
		}
	}
	r.noteData(p)
	p.Free()
	return true
}

// Place implements peer.Placer: a matched receive has room in one piece.
func (r *Rxe) Place(l *peer.Link, msgID uint32, off, n uint64) []byte {
	if !r.busy || r.link != l || r.first.MsgID != msgID || r.m.State != RxMatched || r.entry == nil || r.drops() {
		return nil
	}
	o := &r.entry.Req
	if size := uint64(len(o.Buf)); o.Flags&HasIOV != 0 || off > size || n > size-off {
		return nil
	}
	return o.Buf[off : off+n : off+n]
}

// has reports whether a packet's payload lies in its place.
func (r *Rxe) has(p *peer.Packet) bool {
	b := r.Place(p.Link, p.MsgID, p.Offset, uint64(len(p.Payload)))
	return len(b) > 0 && &b[0] == &p.Payload[0]
}

// store copies data to its place in the operation, of which the memory may be in pieces.
func (r *Rxe) store(off uint64, data []byte) {
	if r.entry != nil {
		r.entry.Req.scatter(off, data)
		return
	}
	if r.x == nil {
		return
	}
	for _, d := range r.x.dst[:r.x.ndst] {
		size := uint64(len(d))
		if off >= size {
			off -= size
			continue
		}
		n := copy(d[off:], data)
		off, data = 0, data[n:]
		if len(data) == 0 {
			return
		}
	}
}

// misfit drops a packet that does not fit.
func (r *Rxe) misfit(p *peer.Packet, err error) {
	r.pools.env.Counters.BadLength++
	segment := p.Multi != nil
	p.Free()
	if segment {
		// Its peer counts it as come, so the rest would never be enough.
		r.fail(fmt.Errorf("%w: %w", errno.ErrIO, err))
	}
}

func (r *Rxe) dropBadID(p *peer.Packet) {
	r.pools.env.Counters.BadID++
	p.Free()
}

// onAborted: the peer gave the operation up.
func (r *Rxe) onAborted(p *peer.Packet) {
	code := p.Errno
	if r.IsMessage() {
		code = uint32(errno.ProvPeerAborted) // whatever was the matter with its sender
	}
	err := remoteError(code)
	if p.Malformed {
		err = peer.ErrMalformed
	}
	p.Free()
	r.note(trail.Answer, uint8(wire.TypePeerError), 0, 1)
	r.pools.env.Counters.Aborted++
	r.pending, r.rsp = 0, false // a responder waits for nothing any more
	r.end(err)
}

// gotData has the operation go on after data came, and end if that was all. The outcome comes
// first, then RECEIPT or EOR: the sender may rely on the data being in the application's hands.
func (r *Rxe) gotData() {
	if r.c.state == CallerLeaving && r.m.reading == 0 && r.m.State == RxMatched {
		r.detach()
	}
	if r.m.State == RxMatched && r.m.Complete() && (r.x == nil || !r.x.expects()) {
		switch {
		case (r.m.Proto.dc() || r.x != nil && r.x.reads()) && r.setPendingAnswer():
		case !r.m.move(RxLast):
			r.noStep(RxLast)
		}
		if r.m.State.over() {
			r.settle()
			return
		}
	}
	r.resume()
}

// setPendingAnswer has an operation whose data is there post RECEIPT or EOR, and reports whether it will;
// else its peer has failed.
func (r *Rxe) setPendingAnswer() bool {
	switch {
	case r.link.MayReturn():
		r.link.AddPending(r.packet(nil, pendingAnswer, 0))
		return false
	case r.link.Err != nil:
		return false
	case r.step(RxLastOwed):
		r.pending |= pendingAnswer
	}
	return true
}

// resume posts the packets that are due and settles.
func (r *Rxe) resume() {
	if r.busy && !r.m.State.over() {
		r.postDue()
	}
	r.settle()
}

// postDue posts the packets that are due of an operation that is not over.
func (r *Rxe) postDue() {
	if r.m.State == RxAnswer {
		r.complete()
	}
	r.pump()
}

// pump posts the packets that are due: READ_NACK, RDMA reads, CTS, RECEIPT or EOR. Control
// packets have priority when the send queue is full, so that they go before data.
func (r *Rxe) pump() {
	if r.link.Err != nil {
		return
	}
	if r.x != nil {
		r.x.checkRefused()
	}
	if r.pending&pendingNACK != 0 && r.control(pendingNACK, 0) {
		r.x.nackSent()
	}
	if r.x != nil {
		r.x.pumpReads()
		if !r.busy || r.x.nacked { // a post was refused, or the replacement is to come
			return
		}
	}
	if n := r.grant(); n > 0 && r.control(0, n) {
		r.m.Granted(n)
	}
	if r.pending&pendingAnswer != 0 && r.control(pendingAnswer, 0) {
		r.step(RxAnswered)
	}
}

// progressed notes that there was progress.
func (r *Rxe) progressed() {
	r.lastProgress = r.pools.env.Sh.Now()
	r.member.GotOn(r.link)
}

// asks reports whether it is a read of ours that goes by packets.
func (r *Rxe) asks() bool { return r.m.Proto == ShortRead || r.m.Proto == LongCTSRead }

// onSent: a packet of the operation's own arrived, or a read is done.
func (r *Rxe) onSent(p *device.Pke) {
	q := r.pools.env.Q
	if p.Kind() == device.WRRead {
		if r.busy { // else the queue pair was closed meanwhile
			r.x.onRead(p)
		}
		q.Free(p)
		r.gotData()
		return
	}
	q.Free(p)
	if r.busy { // else the queue pair was closed meanwhile
		r.flying--
		r.link.Heard()
		r.settle()
	}
}

// grant is the window that is due.
func (r *Rxe) grant() uint64 {
	if r.asks() && !r.rsp {
		return 0 // the responder's id is not known yet
	}
	return r.m.Grant(r.window())
}

// window is how much is granted at a time.
func (r *Rxe) window() uint64 {
	return uint64(r.pools.Policy.Credits) * uint64(r.pools.maxData)
}

// control posts the packet that is owed, or a CTS of n bytes. False: it has to
// wait, or failed.
func (r *Rxe) control(what pendingSet, n uint64) bool {
	env := r.pools.env
	if r.link.BackingOff() {
		if !r.blocked.Queued() {
			r.note(trail.Waits, uint8(trail.ForBackoff), 0, 0)
		}
		r.blocked.Await(r.link, r.ref, true)
		return false
	}
	p := env.Q.Alloc()
	if p == nil {
		r.await()
		return false
	}
	p.Fill(r.packet(p.Header(), what, n), nil)
	p.Span = r.span
	r.link.Address(p, r.ref)
	if err := env.Q.Post(p); err != nil {
		t := wire.Type(p.Type())
		env.Q.Free(p)
		r.lostPacket(t, err)
		return false
	}
	r.noteControl(p, n)
	r.pending &^= what
	r.flying++
	env.Counters.PacketsSent[p.Type()]++
	return true
}

func (r *Rxe) packet(b []byte, what pendingSet, n uint64) []byte {
	id := r.pools.env.ConnID
	switch {
	case what == pendingNACK:
		h := wire.ReadNACK{HasConnID: true, ConnID: id, SendID: r.first.SendID, RecvID: r.id}
		return h.Append(b)
	case what == pendingAnswer && r.m.Proto.dc():
		h := wire.Receipt{HasConnID: true, ConnID: id, TxID: r.first.SendID, MsgID: r.first.MsgID}
		return h.Append(b)
	case what == pendingAnswer:
		h := wire.EOR{HasConnID: true, ConnID: id, SendID: r.first.SendID, RecvID: r.id}
		return h.Append(b)
	default:
		h := wire.CTS{
			HasConnID: true, ConnID: id, EmulatedRead: r.asks(),
			SendID: r.first.SendID, RecvID: r.id, RecvLength: n,
		}
		return h.Append(b)
	}
}

// lostPacket: the other side does not learn of its window, or that its data arrived. That
// peer is failed, since it would wait for ever. It gets the packet if it comes back.
func (r *Rxe) lostPacket(t wire.Type, err error) {
	if r.m.State == RxMatched && r.asks() {
		r.end(err) // our own request: the peer waits for nothing
		return
	}
	r.pools.env.Sh.Tell(r.link.Peer, &peer.Remove{
		Err: fmt.Errorf("%w: a control packet is lost: %w", peer.ErrPeerFailed, err), Tell: true,
	})
	if t == wire.TypeReceipt || t == wire.TypeEOR {
		r.link.AddPending(r.packet(nil, pendingAnswer, 0))
		r.pending &^= pendingAnswer
	} else if r.link.Err == nil && r.awaited() {
		a := r.abort(errno.ProvPeerAborted)
		h := r.pools.peerError(&a)
		r.link.AddPendingAbort(h.Append(nil), a.Memory, a.skips())
	}
	r.fail(err)
}

// sendError reports the rxe's end to the peer.
func (r *Rxe) sendError(code errno.Provider) {
	a := r.abort(code)
	if r.pools.SendError(r.link, &a) {
		r.note(trail.Answer, uint8(wire.TypePeerError), 0, 0)
	}
}

// abort is what PEER_ERROR says of the operation's end: by the id that its message or request
// has, or its answer to ours.
func (r *Rxe) abort(code errno.Provider) Abort {
	return Abort{MsgID: r.msgID(), OpID: r.first.SendID, Emitter: wire.EmitterRX, Memory: !r.IsMessage(), Errno: code}
}

// msgID is its message's, 0 if it is none.
func (r *Rxe) msgID() uint32 {
	if !r.IsMessage() {
		return 0
	}
	return r.first.MsgID
}
