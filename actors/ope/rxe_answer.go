package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// pump posts what is due: READ_NACK, RDMA reads, CTS, RECEIPT or EOR. Control
// packets have priority when the send queue is full, so that they go before data.
func (r *Rxe) pump() {
	if r.link.Err != nil {
		return
	}
	if r.x != nil {
		r.x.checkRefused()
	}
	if r.owes&owesNACK != 0 && r.control(owesNACK, 0) {
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
	if r.owes&owesAnswer != 0 && r.control(owesAnswer, 0) {
		r.step(RxAnswered)
	}
}

// grant is the window that is due.
func (r *incoming) grant() uint64 {
	if r.asks() && !r.rsp {
		return 0 // the responder's id is not known yet
	}
	return r.m.Grant(r.window())
}

// window is how much is granted at a time.
func (r *incoming) window() uint64 {
	return uint64(r.pools.Policy.Credits) * uint64(r.pools.maxData)
}

// control posts the packet that is owed, or a CTS of n bytes. False: it has to
// wait, or failed.
func (r *Rxe) control(what owed, n uint64) bool {
	env := r.pools.env
	if r.link.Backoff {
		if !r.hold.Queued() {
			r.note(trail.Waits, uint8(trail.ForBackoff), 0, 0)
		}
		r.hold.Await(r.link, r.ref, true)
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
	r.owes &^= what
	r.flying++
	env.Counters.PacketsSent[p.Type()]++
	return true
}

func (r *incoming) packet(b []byte, what owed, n uint64) []byte {
	has, id := r.pools.connID()
	switch {
	case what == owesNACK:
		h := wire.ReadNACK{HasConnID: has, ConnID: id, SendID: r.says.SendID, RecvID: r.id}
		return h.Append(b)
	case what == owesAnswer && r.m.Proto.dc():
		h := wire.Receipt{HasConnID: has, ConnID: id, TxID: r.says.SendID, MsgID: r.says.MsgID}
		return h.Append(b)
	case what == owesAnswer:
		h := wire.EOR{HasConnID: has, ConnID: id, SendID: r.says.SendID, RecvID: r.id, Short: r.pools.env.Config.Era.ShortEOR}
		return h.Append(b)
	default:
		h := wire.CTS{
			HasConnID: has, ConnID: id, EmulatedRead: r.asks(),
			SendID: r.says.SendID, RecvID: r.id, RecvLength: n,
		}
		return h.Append(b)
	}
}

// nackSent: a refused message waits for its replacement, a refused write is over:
// the requester begins again.
func (d *reader) nackSent() {
	r := d.r
	r.pools.env.Counters.NACKsSent++
	if r.ord == nil {
		r.says.HasData = false
		r.step(RxLast)
	}
}

// lostPacket: the other side does not learn of its window, or that its data arrived. That
// peer is failed, since it would wait for ever, and told if it comes back.
func (r *Rxe) lostPacket(t wire.Type, err error) {
	if r.m.State == RxMatched && r.asks() {
		r.end(err) // our own request: the peer waits for nothing
		return
	}
	r.pools.env.Sh.Tell(r.link.Peer, &peer.Remove{
		Err: fmt.Errorf("%w: a control packet is lost: %w", peer.ErrPeerFailed, err), Tell: true,
	})
	if t == wire.TypeReceipt || t == wire.TypeEOR {
		r.link.Owe(r.packet(nil, owesAnswer, 0))
		r.owes &^= owesAnswer
	} else if r.link.Err == nil && r.incoming.awaited() {
		id, own := r.pools.connID()
		h := wire.PeerError{
			HasConnID: id, ConnID: own, OpID: r.says.SendID, RefKind: wire.RefOpe, ProvErrno: uint32(errno.ProvPeerAborted),
		}
		r.link.Owe(h.Append(nil))
	}
	r.fail(err)
}

// settle gives the outcome if there is one, and frees the rxe once nothing refers
// to it any more. While the device writes to the application's buffer it is not
// given back.
func (r *Rxe) settle() {
	if !r.busy || !r.m.State.over() || r.m.reading > 0 {
		return
	}
	r.complete()
	if r.x != nil {
		r.x.doneWith()
	}
	if r.flying|r.told != 0 || r.slotWaits || r.more || r.owes != 0 || r.hold.Queued() || r.x != nil && r.x.turn.InLine() {
		return
	}
	r.release()
}

// release gives the rxe back, for its next use.
func (r *Rxe) release() {
	if r.span != 0 || r.x != nil {
		r.endRest()
	}
	r.member.Leave()
	if r.ord != nil {
		r.pools.Orders.Put(r.ord)
	}
	r.err, r.canceled = nil, nil
	r.freeRx()
}

// freeRx makes the rxe ready for its next use.
func (r *Rxe) freeRx() {
	p := r.pools
	r.id = nextID(r.id)
	r.busy, r.unkept = false, false
	r.ord, r.link, r.next, p.rxFree = nil, nil, p.rxFree, r
}

// endRest ends what only few have: a span, an extension.
func (r *Rxe) endRest() {
	if r.span != 0 {
		r.noteReceived()
		r.pools.env.Trail.Outcome(r.span, trail.End, min(r.m.Got+r.m.read, r.m.Total), r.err)
		r.span = 0
	}
	if x := r.x; x != nil {
		r.x = nil
		x.turn.Over(r.link)
		r.member.Of(nil)
		r.pools.putRxExt(x, r.link)
	}
}

// complete gives the outcome, once.
func (r *Rxe) complete() {
	if r.c.Told() {
		return
	}
	if !r.c.move(CallerOutcome) {
		r.violated(noEdge(CallerOutcome, r.c.state))
		return
	}
	if r.ord == nil {
		r.tellWritten()
		return
	}
	q := &r.ord.Req
	r.handReceived()
	q.Buf = nil // it is the caller's, although the operation may go on
}

// handReceived counts the outcome and gives it to the sink.
func (r *Rxe) handReceived() {
	q, p := &r.ord.Req, r.pools
	res := &p.res
	r.Describe(res)
	if r.err != nil || r.span != 0 || q.More != nil || res.N > len(q.Buf) {
		r.handLess(res)
		return
	}
	p.Tally.succeed(q.Kind, uint64(res.N))
	q.Sink.Done(q, res)
}

// handLess is the rest of handReceived for an outcome that has something unusual: it may be less than
// the message.
func (r *Rxe) handLess(res *Result) {
	q, p := &r.ord.Req, r.pools
	if r.err != nil {
		res.Err, res.N = r.err, 0
	} else if room := q.Len(); res.N > room && q.Flags&Discard == 0 { // else all of it is there, or gone
		res.N, res.Lost = room, res.N-room
		res.Err = &Truncated{Placed: res.N, Lost: res.Lost}
	}
	if r.span != 0 {
		r.noteReceived()
		p.env.Trail.Outcome(r.span, trail.Told, uint64(res.N), res.Err)
	}
	p.Tally.Count(q.Kind, uint64(res.N), res.Err)
	q.Sink.Done(q, res)
	if q.More != nil {
		q.PutLists()
		q.More = nil
	}
}

// tellWritten tells of a peer's write, which has no request here.
func (r *Rxe) tellWritten() {
	if r.span != 0 {
		r.noteReceived()
	}
	r.servedWrite()
	if p := r.pools; r.err == nil && r.says.HasData && p.OnWritten != nil {
		p.OnWritten(r.link, int(r.m.Total), r.says.Data)
	}
}
