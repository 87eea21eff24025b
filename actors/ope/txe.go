package ope

// How a message is sent, from the API to the device:
//
//  1. api/efa/send.go: Send makes the request, takes its place and hands it over.
//  2. actors/endpoint/requests.go: the endpoint takes it and finds the peer.
//  3. actors/ope/send.go: a txe is armed with it and submits itself to the peer.
//  4. actors/peer/admit.go: admit gives it a msg_id and a packet entry if it waits for nothing.
//  5. actors/ope/send.go: the txe builds and posts the eager packet, or begins what else there is.

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/machine"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Txe is the actor of one operation whose data leaves from here: a message, a write
// or an atomic of ours, or the response to a read or an atomic of the peer's.
//
//   - It owns its request and its machine, from GetTx to release; the buffer in
//     the request is the caller's until the outcome.
//   - Its peer grants its turn, resumes it and reports failures; the device
//     queue reports packets that arrived and room; CTS and answers come
//     from its peer.
//   - It posts packets and RDMA writes, and gives the outcome to the request's
//     sink.
//   - It waits for its turn, a CTS, an answer, room, or the end of back-off.
//   - It is never stopped alone; when its endpoint stops, the endpoint has ended
//     it before.
type Txe struct {
	pools *Pools
	ref   shard.Ref
	id    uint32 // send_id

	busy    bool
	entered bool // Send is at work on it
	rawAddr bool // optional headers, chosen once per message
	connID  bool
	marks   marks

	peerID uint32 // the other side's recv_id, or of a response its id of the request

	lastProgress clock.Time

	q     *Request // the caller's until the operation waits, then its entry's
	entry *Entry   // nil as long as it has not had to wait, and between uses
	base  uint64   // of a caller that has gone: where in the message q.Buf begins
	link  *peer.Link
	m     Tx
	c     Caller
	err   error
	x     *txExt // nil of most operations

	ticket  peer.Turn
	blocked peer.Blocked
	slot    device.SlotWait
	member  peer.Member

	resumeMsg continueMsg
	next      *Txe
}

// marks are what has happened to an operation. All are unset between uses.
type marks struct {
	nacked   bool // the receiver cannot read (§4.7)
	spent    bool // it has used up its msg_id
	hasPeer  bool // peerID is known
	reads    bool // it counts among the read messages in flight
	abortDue bool // PEER_ERROR is due once no packet is under way
	gathers  gathering

	slotWaits    bool
	resumeQueued bool
}

// txExt holds the state that only few txes need: those that use registered memory, answer a
// request, or whose caller has left.
type txExt struct {
	late     lateMsg
	canceled error // of the caller's context

	used    inUse
	key     uint64 // by which the peer reads the message; 0: it does not
	addr    uint64 // where the peer reads
	lent    bool   // key is that of a window on path, to be returned
	path    uint8
	moves   bool                // another memory can take the place of the buffer meanwhile
	src     [wire.MaxIOV][]byte // memory of a read response, in the order of the request
	nsrc    int
	block   []byte // of an atomic response, from the packets' pool
	charged int    // bytes accounted to the peer
	runt    int    // bytes of a runt under way, counted in the link
	abort   Abort  // of PEER_ERROR

	iovs *lentIOVs // in place of key, of a message in several pieces

	next *txExt
}

// lateMsg ends the patience with a canceled send.
type lateMsg struct {
	shard.Message
	timer shard.Timer
	id    uint64 // of the request
}

type continueMsg struct{ shard.Message }

// prepare is what has to be seen to, beside its turn, of an operation that is more than a plain
// message, or of every one in an endpoint that follows what happens.
func (t *Txe) prepare() {
	q, l, env := t.q, t.link, t.pools.env
	if q.Flags&(Inject|Deliver) == Inject|Deliver {
		q.Flags &^= Deliver // its caller has gone on
	}
	if env.Trail != nil {
		t.ticket.Span = follow(env.Trail, q, l)
	}
	switch q.Kind {
	case KindSend:
		if t.pools.waits.reads {
			t.ticket.Await = t.pools.mayRead(l, q.Len())
		}
	case KindWrite:
		t.member.BoundInLine(l)
		t.ticket.Ask(true, t.pools.waits.rma || q.Flags&Deliver != 0)
	default:
		t.member.BoundInLine(l)
	}
	if q.Flags&(Deliver|Fence|Ordered|Follows) != 0 {
		t.prepareOrder()
	}
}

// keepIfBusy has an operation wait that is not over.
func (t *Txe) keepIfBusy() {
	if t.busy && t.entry == nil {
		t.keep()
	}
}

// keep makes the operation one that waits: it has its own copy of the request, and the
// peer knows of it.
func (t *Txe) keep() {
	t.lastProgress = t.pools.env.Sh.Now()
	t.entry = t.pools.Entries.Get(t.q, t.lastProgress)
	t.q = &t.entry.Req
	t.m.Expect(uint64(t.q.Len()))
	t.link.Join(&t.member, t.ref)
	if q := t.q; q.Flags&Borrowed != 0 && t.m.State == TxReq && len(q.Buf) > 0 {
		x := t.ext()
		x.block = t.pools.env.Pool.Block(len(q.Buf))
		q.Buf = x.block[:copy(x.block, q.Buf)]
	}
}

// Receive is the txe's message switch.
func (t *Txe) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *device.SendDone:
		t.onSent(m.Pke)
	case *peer.Grant:
		t.ticket.Taken()
		t.onGrant(m.Pke)
	case *peer.Deliver:
		t.onPacket(m.Pkt)
	case *device.SlotWait:
		t.marks.slotWaits = false
		t.note(trail.GoesOn, uint8(trail.ForRoom), 0, 0)
		t.pump(nil)
		t.settle()
	case *peer.Resume:
		t.blocked.Resumed()
		t.note(trail.GoesOn, 0, 0, 0)
		t.pump(nil)
		t.settle()
	case *continueMsg:
		t.marks.resumeQueued = false
		t.pump(nil)
		t.settle()
	case *peer.SendFailed:
		t.onLost(m)
	case *peer.Fail:
		if m.Concerns(t.link, &t.member) && (m.Link != nil || !t.HasPending() && !t.lent()) {
			t.fail(m.Err)
		}
	case *peer.Withdrawn:
		t.onWithdrawn(m)
	case *peer.Refused:
		t.fail(m.Err)
	case *peer.WhenOver:
		if m.Concerns(t.link, &t.member) {
			t.ext() // for release to look
			t.ticket.Asked()
		}
	case *Cancel:
		t.onCancel(m)
	case *Revoke:
		t.onRevoke(m.Region)
	case *lateMsg:
		t.onLate()
	case *Abandon:
		t.onAbandon(m.Err)
	case *actor.Restarting:
		t.panicked()
	}
}

// onSent: a packet arrived at the peer.
func (t *Txe) onSent(p *device.Pke) {
	t.arrived(p)
	t.settle()
}

// arrived counts a packet that did, and frees its entry.
func (t *Txe) arrived(p *device.Pke) {
	if t.busy && t.isREQ(p) { // else the queue pair was closed meanwhile
		t.link.Arrived()
	}
	t.arrivedAtOnce(p)
}

// arrivedAtOnce is arrived for a packet that was never under way.
func (t *Txe) arrivedAtOnce(p *device.Pke) {
	n, runt, kind, off := p.Bytes, t.x != nil && isRunt(p), p.Kind(), p.Off
	t.pools.env.Q.Free(p)
	if !t.busy {
		return
	}
	if kind == device.WRSend {
		t.link.Heard()
	} else {
		t.link.Reached()
	}
	t.progressed()
	if !t.must(t.m.Ack(n)) {
		return
	}
	if t.ticket.Span != 0 {
		t.noteArrived(kind, off, n)
	}
	if runt {
		t.x.runtOver(t.link, n)
	}
	switch t.c.state {
	case CallerRevoked:
		t.releaseRegion()
	case CallerLeaving:
		if t.mayCopy() {
			t.tryDetach()
		}
	default:
	}
}

// progressed notes that there was progress.
func (t *Txe) progressed() {
	t.lastProgress = t.pools.env.Sh.Now()
	t.member.GotOn(t.link)
}

// delivered is settle of a message that has arrived as a whole when it was posted. If it never had to
// wait, only its caller knows of it, so that little has to be given back.
func (t *Txe) delivered() {
	if t.entry != nil || t.x != nil || t.marks.gathers != 0 || t.ticket.Span != 0 {
		if t.ticket.Span != 0 {
			t.leave(trail.Acked, 0, t.m.Acked, 0)
		}
		t.settle()
		return
	}
	if !t.c.move(CallerOutcome) {
		t.settle()
		return
	}
	t.handSent()
	t.freeTx()
}

// onLost: a packet will never arrive; the operation failed for good, and the other
// side would wait for the rest of it.
func (t *Txe) onLost(m *peer.SendFailed) {
	req := t.isREQ(m.Pke)
	t.pools.env.Q.Free(m.Pke)
	if !t.busy {
		return
	}
	if req {
		t.link.Arrived()
	}
	if !t.must(t.m.Lost()) {
		return
	}
	if t.err == nil {
		t.err = m.Err
	}
	t.giveUp()
	t.settle()
}

// fail ends the message with err. Packets with the device are awaited before the
// caller gets its buffer back, unless the device keeps no reference to it.
func (t *Txe) fail(err error) {
	if !t.busy {
		return
	}
	if t.m.State == TxDone {
		t.settle()
		return
	}
	if t.err == nil {
		t.err = err
	}
	if t.m.State != TxErr {
		incomplete := t.incomplete()
		t.must(t.m.Fail())
		if incomplete {
			t.giveUp()
		}
		t.leaveLine()
	}
	if t.m.Flying > 0 && t.copied() && !protos[t.m.Proto].rdma {
		t.detachPackets()
		t.complete()
	}
	t.settle()
}

// leaveLine takes an operation that has failed out of its peer's line, so that
// no msg_id is spent on nothing.
func (t *Txe) leaveLine() {
	if t.ticket.InLine() && t.link.Err == nil && !t.pools.Closing {
		t.ticket.Withdraw(t.link, t.q.ID)
	}
}

// settle gives the outcome if there is one, and frees the txe once nothing refers
// to it any more.
func (t *Txe) settle() {
	if !t.busy || !t.m.Over() || t.m.Flying > 0 {
		return
	}
	t.complete()
	if t.x != nil {
		t.servedRead()
		t.x.releaseMemory(t.pools)
	}
	if t.marks.slotWaits || t.marks.resumeQueued || t.blocked.Queued() || t.ticket.InLine() {
		return
	}
	if t.marks.abortDue {
		t.marks.abortDue = false
		t.abortPeer()
	}
	t.release()
}

// complete gives the outcome, once. What the peer reads after that it discards.
func (t *Txe) complete() {
	if t.x != nil {
		t.x.unlend(t.pools)
	}
	if !t.c.Told() {
		t.notify(CallerOutcome)
	}
}

// notify gives the outcome by an event that ends the caller's waiting.
func (t *Txe) notify(e CallerEvent) {
	if !t.c.move(e) {
		t.violated(machine.NoEdge(e, t.c.state))
		return
	}
	t.handSent()
}

// handSent counts the outcome and gives it to the sink.
func (t *Txe) handSent() {
	q, p := t.q, t.pools
	s, r := q.Sink, &p.sent
	q.Sink, r.Err = nil, t.err
	r.Proto, r.N = t.m.Proto, int(t.m.Total)
	if t.err != nil || t.ticket.Span != 0 || q.Kind == KindAtomic {
		t.handUnusual(s)
		return
	}
	p.Tally.succeed(q.Kind, t.m.Total)
	s.Done(q, r)
}

// handUnusual is the rest of handSent for an outcome that has something unusual.
func (t *Txe) handUnusual(s Sink) {
	q, p := t.q, t.pools
	r := &p.sent
	switch {
	case t.err != nil:
		r.N = int(t.m.Acked)
	case q.Kind == KindAtomic:
		r.N = len(q.Buf)
	}
	p.env.Trail.Outcome(t.ticket.Span, trail.Told, uint64(r.N), t.err)
	p.Tally.Count(q.Kind, uint64(r.N), t.err)
	s.Done(q, r)
}

func (t *Txe) release() {
	if t.entry != nil || t.x != nil || t.marks.gathers != 0 || t.ticket.Span != 0 || t.marks.reads {
		t.giveBack()
	}
	t.member.Leave()
	t.err, t.base, t.slot.Control = nil, 0, false
	t.freeTx()
}

// giveBack is what release has to do for an operation that has waited, or has more than a message
// in a packet has.
func (t *Txe) giveBack() {
	if t.ticket.Span != 0 {
		t.pools.env.Trail.Outcome(t.ticket.Span, trail.End, t.m.Acked, t.err)
		t.ticket.Span = 0
	}
	t.notReading()
	if x := t.x; x != nil {
		t.x = nil
		t.ticket.Over(t.link)
		t.pools.putTxExt(x, t.link)
	}
	if t.c.state == CallerDetached {
		t.pools.detached -= uint64(len(t.q.Buf))
	}
	if t.marks.gathers != 0 {
		t.q.PutIOV()
	}
	if t.entry != nil {
		t.pools.Entries.Put(t.entry)
		t.entry = nil
	}
}

// freeTx makes the txe ready for its next use.
func (t *Txe) freeTx() {
	t.id = nextID(t.id)
	t.busy = false
	t.marks = marks{}
	t.m.Reset()
	t.c.Start(true)
	p := t.pools
	t.q, t.link, t.next, p.txFree = nil, nil, p.txFree, t
}

// must reports whether a step was in its machine's table, and ends the operation if it
// was not: that is an error in this package, never the peer's.
func (t *Txe) must(err error) bool {
	if err != nil {
		t.violated(err)
	}
	return err == nil
}

func (t *Txe) violated(err error) { t.fail(t.pools.violation(t.link, err)) }

// panicked: a handler of this operation panicked; it ends with an error, and the
// other operations go on.
func (t *Txe) panicked() {
	if !t.busy {
		return
	}
	t.note(trail.Restarted, 0, 0, 0)
	t.fail(ErrInternal)
}

func (t *Txe) ext() *txExt {
	if t.x == nil {
		p := t.pools
		if t.x = p.txExts; t.x == nil {
			t.x = new(txExt)
		} else {
			p.txExts = t.x.next
		}
	}
	return t.x
}

// unlend ends the leave.
func (x *txExt) unlend(p *Pools) {
	if x.lent {
		p.env.Q.Return(x.path, x.key)
		x.lent, x.moves = false, false
	}
	if x.iovs != nil {
		x.iovs.giveBack(p.env.Q, x.path)
	}
}

// releaseMemory ends the use of registered memory.
func (x *txExt) releaseMemory(p *Pools) {
	x.unlend(p)
	x.used.release()
}

// runtOver takes n bytes of the runt out of the count of those under way to the peer.
func (x *txExt) runtOver(l *peer.Link, n int) {
	n = min(n, x.runt)
	x.runt -= n
	l.AddRunt(-n)
}

// isRunt reports whether a packet carries a part of a runt.
func isRunt(p *device.Pke) bool {
	t := wire.Type(p.Type())
	return t == wire.TypeRuntReadMsgRTM || t == wire.TypeRuntReadTagRTM
}

// Concerns reports whether the operation has to do with a region that is being
// closed: it has it in use, or, from now on, since its buffer lies there.
func (t *Txe) Concerns(r *mr.Region) bool {
	if t.UsesRegion(r) {
		return true
	}
	if t.c.Told() || !t.q.Touches(r.Bytes()) {
		return false
	}
	t.ext().used.share(r)
	return true
}

// UsesRegion reports whether the operation has r in use.
func (t *Txe) UsesRegion(r *mr.Region) bool { return t.x != nil && t.x.used.uses(r) }

// Link is the txe's peer, nil between uses.
func (t *Txe) Link() *peer.Link { return t.link }

// Sends reports whether it is the message with that msg_id to a peer.
func (t *Txe) Sends(l *peer.Link, msgID uint32) bool {
	return t.link == l && t.marks.spent && t.ticket.MsgID == msgID && t.q.Kind == KindSend
}

// Request gives what the txe was armed with, for snapshots.
func (t *Txe) Request() *Request { return t.q }

// Machine gives the state, for snapshots.
func (t *Txe) Machine() Tx { return t.m }

// Ref is the actor's.
func (t *Txe) Ref() shard.Ref { return t.ref }
