package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

func (r *Rxe) onUnexpected() {
	r.told--
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
	r.link.Hold(unexpectedCost)
	for p := r.head; p != nil; p = p.Next {
		p.Own()
	}
}

// unexpectedCost is what a message that waits for a receive costs beside its
// packets: with it TotalMemory is used up before the operations are.
const unexpectedCost = 1536

// discharge gives that back.
func (r *incoming) discharge() {
	if r.charged {
		r.charged = false
		r.link.Release(unexpectedCost)
	}
}

// gotOn notes that there was progress.
func (r *incoming) gotOn() {
	r.moved = r.pools.env.Sh.Now()
	r.member.GotOn(r.link)
}

// onMatched: there is a place for the data. What came already goes there.
func (r *Rxe) onMatched() {
	if !r.m.move(RxMatch) {
		if r.m.State == RxErr {
			r.settle() // the peer failed while the match was under way
		} else {
			r.noStep(RxMatch)
		}
		return
	}
	if !r.unkept {
		r.moved = r.pools.env.Sh.Now()
	}
	r.discharge()
	for p := r.head; p != nil; p = r.head {
		if r.head = p.Next; !r.take(p) && r.m.State != RxMatched {
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
		r.fail(r.link.Err) // what is missing will not come
	}
}

// onWhole is onMatched of an eager message that has just come: nothing has happened to it yet, and
// its one packet holds all of it.
func (r *Rxe) onWhole() {
	p := r.head
	if o := &r.ord.Req; o.Flags&(Discard|Pieced) == 0 {
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
	r.pools.Orders.Put(r.ord)
	r.freeRx() // since nothing is under way, nor was
}

// placeWhole puts a message that is whole where a request wants it that has no one buffer for it.
func (r *Rxe) placeWhole(p *peer.Packet) {
	if o := &r.ord.Req; o.Flags&Discard == 0 {
		r.pools.env.Counters.Copied += uint64(len(p.Payload))
		o.scatter(0, p.Payload)
	}
}

// onPacket takes a further packet: a segment of a message, CTSDATA, READRSP, the
// replacement of a refused message, or PEER_ERROR.
func (r *Rxe) onPacket(p *peer.Packet) {
	if !r.busy || p.Link != r.link || r.m.State.over() {
		if r.busy && p.Link == r.link && p.Untold(r.id) {
			r.pools.env.Sh.Call(r.pools.env.Endpoint, p.Arrive())
			return
		}
		r.strange(p)
		return
	}
	r.gotOn()
	switch {
	case p.Type == wire.TypePeerError:
		r.onAborted(p)
	case r.x == nil && (p.Nack || p.Type == wire.TypeREADRSP):
		r.strange(p)
	case p.Nack:
		r.x.onReplaced(p)
	case p.Multi != nil:
		r.onSegment(p)
	case p.RecvID != r.id || r.m.State != RxMatched:
		r.strange(p)
	case p.Type == wire.TypeREADRSP:
		r.x.onREADRSP(p)
	case p.Type == wire.TypeCTSData:
		r.take(p)
		r.gotData()
	default:
		r.strange(p)
	}
}

func (r *incoming) strange(p *peer.Packet) {
	r.pools.env.Counters.BadID++
	p.Free()
}

func (r *Rxe) onSegment(p *peer.Packet) {
	if p.MsgID != r.says.MsgID || r.m.State == RxAnswer {
		r.strange(p)
		return
	}
	if r.m.State == RxMatched {
		r.take(p)
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

// onAborted: the peer gave the operation up.
func (r *Rxe) onAborted(p *peer.Packet) {
	err := remoteError(p.Errno)
	if p.Malformed {
		err = peer.ErrMalformed
	}
	p.Free()
	r.note(trail.Answer, uint8(wire.TypePeerError), 0, 1)
	r.pools.env.Counters.Aborted++
	r.owes, r.rsp = 0, false // a responder waits for nothing any more
	r.end(err)
}

// take copies a packet's payload to its place; what has no room there is dropped
// (truncation). False: the packet does not fit.
func (r *Rxe) take(p *peer.Packet) bool {
	n := uint64(len(p.Payload))
	if windowed := p.Type == wire.TypeCTSData || p.Type == wire.TypeREADRSP; !r.m.Take(p.Offset, n, windowed) {
		r.misfit(p, r.m.misfit(p.Offset, n, windowed))
		return false
	}
	if !r.drops() {
		r.pools.env.Counters.Copied += n
		if o := r.ord; o == nil || o.Req.Flags&Pieced != 0 {
			r.put(p.Offset, p.Payload)
		} else if b := o.Req.Buf; p.Offset < uint64(len(b)) {
			copy(b[p.Offset:], p.Payload)
		}
	}
	r.noteData(p)
	p.Free()
	return true
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

// put copies data to its place in the operation, of which the memory may be in pieces.
func (r *incoming) put(off uint64, data []byte) {
	if r.ord != nil {
		r.ord.Req.scatter(off, data)
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

// gotData has the operation go on after data came, and end if that was all. The outcome comes
// first, then RECEIPT or EOR: the sender may rely on the data being in the application's hands.
func (r *Rxe) gotData() {
	if r.c.state == CallerLeaving && r.m.reading == 0 && r.m.State == RxMatched {
		r.letGo()
	}
	if r.m.State == RxMatched && r.m.Complete() && (r.x == nil || !r.x.expects()) {
		switch {
		case (r.m.Proto.dc() || r.x != nil && r.x.reads()) && r.owesNow():
		case !r.m.move(RxLast):
			r.noStep(RxLast)
		}
		if r.m.State.over() {
			r.settle()
			return
		}
	}
	r.goOn()
}

// expects reports whether an operation that has all its bytes is still to hear from its peer: the
// replacement of a message that it cannot read, or the answer to a read of nothing.
func (d *reader) expects() bool {
	return d.nacked || d.refusing || d.r.asks() && !d.r.rsp
}

// reads reports whether some of the operation's data was to be read: a runt that is the whole
// message is all that comes (§4.5).
func (d *reader) reads() bool {
	m := &d.r.m
	return m.Proto.readBased() && (m.Proto != RuntRead || m.packets < m.Total)
}

// owesNow has an operation whose data is there post RECEIPT or EOR, and reports whether it will;
// else its peer has failed.
func (r *Rxe) owesNow() bool {
	switch {
	case r.link.Away:
		r.link.Owe(r.packet(nil, owesAnswer, 0))
		return false
	case r.link.Err != nil:
		return false
	case r.step(RxLastOwed):
		r.owes |= owesAnswer
	}
	return true
}

// asks reports whether it is a read of ours that goes by packets.
func (r *incoming) asks() bool { return r.m.Proto == ShortRead || r.m.Proto == LongCTSRead }

// goOn posts what is due and settles.
func (r *Rxe) goOn() {
	if r.busy && !r.m.State.over() {
		r.postDue()
	}
	r.settle()
}

// postDue posts what is due of an operation that is not over.
func (r *Rxe) postDue() {
	if r.m.State == RxAnswer {
		r.complete()
	}
	r.pump()
}

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
