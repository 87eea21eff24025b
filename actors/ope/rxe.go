package ope

import (
	"errors"
	"math"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/machine"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Rxe is the actor of one operation whose data arrives here: a message from its
// first packet on (a posted receive for which nothing came yet is an entry in the
// matcher), a write of the peer's into our memory, or a read of ours.
//
//   - It owns the packets that wait for a receive, the request once one matched,
//     and its machine.
//   - The endpoint reports the match; its peer gives it packets; the device
//     queue reports room, and packets and reads that have ended.
//   - It copies data to where it belongs, or has the device read it, posts CTS,
//     RECEIPT, EOR and READ_NACK, and gives the outcome to the request's sink.
//   - It waits for a match, for data, for room.
//   - It is never stopped alone; when its endpoint stops, the endpoint has ended
//     it before.
type Rxe struct {
	pools *Pools
	ref   shard.Ref
	id    uint32 // recv_id

	busy         bool
	fresh        bool // it has not had to wait yet, see keep
	target       bool // a peer's write into our memory
	rsp          bool // of our read: the READRSP came
	parked       bool // its peer has failed and may come back, so no receive can match it
	charged      bool // unexpectedCost
	slotWaits    bool
	resumeQueued bool       // a continueMsg is under way
	pending      pendingSet // packets that are to be posted
	underWay     int32      // messages to it that are under way
	flying       int32      // packets with the device, RDMA reads not counted

	entry    *Entry   // nil until a receive matched, and of a peer's write
	wait     *waiting // its entry in the matcher while unexpected
	link     *peer.Link
	m        Rx
	c        Caller
	err      error
	canceled error // of the caller's context
	x        *rxExt

	first        wire.Eager // the first packet of a message or write; of a read of ours, SendID alone
	born         clock.Time // set, like lastProgress, only once it had to wait
	lastProgress clock.Time
	span         uint64 // in the trail: the message's, then that of the receive
	got          uint64 // bytes in gotPackets, of which the trail has no record yet
	gotPackets   uint32
	gotType      wire.Type // of the first

	blocked peer.Blocked
	slot    device.SlotWait
	member  peer.Member

	next   *Rxe
	stored uint64

	head *peer.Packet // not copied yet
	tail *peer.Packet // the last of them, nil if there are fewer than two

	resumeMsg continueMsg
	matched   Matched
	unexp     Unexpected
}

// pendingSet are the control packets that an rxe has to post.
type pendingSet uint8

const (
	pendingAnswer pendingSet = 1 << iota // RECEIPT or EOR
	pendingNACK
)

// waiting is an unexpected message's entry in the matcher. Few messages need one,
// so it is no part of the rxe.
type waiting struct {
	msg  match.Msg
	next *waiting
}

// Matched tells an rxe that there is a place for its data (endpoint -> rxe): a
// receive was found, and the request is in it already, or registered memory.
type Matched struct {
	shard.Message
	Rxe *Rxe
}

// Unexpected tells an rxe that no receive is posted for its message
// (endpoint -> rxe).
type Unexpected struct {
	shard.Message
	Rxe *Rxe
}

func (r *Rxe) arm(l *peer.Link) {
	r.link = l
	r.c.Start(true)
	r.rsp, r.target, r.parked = false, false, false // the rest is as release left it
	r.fresh = true
}

// beginMore is the rest of Begin for a message that is more than one packet, for a write, and for
// every one in an endpoint that follows what happens.
func (r *Rxe) beginMore(pkt *peer.Packet) {
	proto := r.m.Proto
	if x := pkt.Ext; x != nil {
		if e := r.ext(); x.NRead > 0 {
			e.src, e.nsrc = x.Read, x.NRead
			r.m.Begin(RxInit, proto, pkt.Length, x.Runt) // 0 of a long read
		}
	}
	if l := r.pools.env.Trail; l != nil && proto != EagerWrite {
		r.follow(l, pkt)
	}
	if pkt.Multi != nil {
		pkt.Multi.Rx, pkt.Multi.To = r.ref, r
	}
}

// protoOf is the subprotocol that a packet of each type begins.
var protoOf = func() (of [math.MaxUint8 + 1]Proto) {
	for t := range of {
		of[t] = Eager
	}
	for t, p := range map[wire.Type]Proto{
		wire.TypeMediumMsgRTM: Medium, wire.TypeMediumTagRTM: Medium,
		wire.TypeLongCTSMsgRTM: LongCTS, wire.TypeLongCTSTagRTM: LongCTS,
		wire.TypeLongReadMsgRTM: LongRead, wire.TypeLongReadTagRTM: LongRead,
		wire.TypeRuntReadMsgRTM: RuntRead, wire.TypeRuntReadTagRTM: RuntRead,
		wire.TypeDCEagerMsgRTM: DCEager, wire.TypeDCEagerTagRTM: DCEager,
		wire.TypeDCMediumMsgRTM: DCMedium, wire.TypeDCMediumTagRTM: DCMedium,
		wire.TypeDCLongCTSMsgRTM: DCLongCTS, wire.TypeDCLongCTSTagRTM: DCLongCTS,
		wire.TypeEagerRTW: EagerWrite, wire.TypeDCEagerRTW: DCEagerWrite,
		wire.TypeLongCTSRTW: LongCTSWrite, wire.TypeDCLongCTSRTW: DCLongCTSWrite, wire.TypeLongReadRTW: LongReadWrite,
	} {
		of[t] = p
	}
	return of
}()

// keep makes the operation one that waits: the peer knows of it.
func (r *Rxe) keep() {
	r.fresh = false
	r.born = r.pools.env.Sh.Now()
	r.lastProgress = r.born
	r.link.Join(&r.member, r.ref)
}

// keepIfNew has an operation wait that has just begun and is not over.
func (r *Rxe) keepIfNew() {
	if r.fresh {
		r.keep()
	}
}

// Match gives the rxe the request that receives its message, nil if that goes to registered
// memory, and has it go on. A panic is no failure of the caller, which goes on, too.
func (r *Rxe) Match(entry *Entry) {
	if entry != nil {
		r.unlisted()
		entry.settled()
		if r.entry = entry; entry.Span != 0 {
			r.followBy(entry)
		}
	}
	sh := r.pools.env.Sh
	if !sh.Enter(r.ref) {
		r.matchLater()
		return
	}
	returned := false
	defer func() {
		if !returned {
			sh.Rescue(r.ref, recover())
			r.keepIfNew()
		}
	}()
	r.onMatched()
	sh.Exit()
	returned = true
	r.keepIfNew()
}

// MatchLast is Match of a message that has just come, for callers that have nothing left to do,
// nor have their own callers. A panic needs no rescue of its own then: it unwinds the stack up to
// where the turn or a message is rescued, and is the failure of the rxe all the same.
func (r *Rxe) MatchLast(entry *Entry) {
	if r.entry = entry; entry.Span != 0 {
		r.followBy(entry)
	}
	sh := r.pools.env.Sh
	if sh.Enter(r.ref) {
		if r.m.Proto == Eager { // as most messages are
			r.onWhole()
			sh.Exit()
			return
		}
		entry.settled()
		r.onMatched()
		sh.Exit()
		r.keepIfNew()
		return
	}
	r.matchLaterBy(entry)
}

// followBy has the receive's trail go on with what happens to the message.
func (r *Rxe) followBy(entry *Entry) {
	r.pools.env.Trail.Put(entry.Span, trail.Matched, 0, r.span, 0)
	r.span = entry.Span
}

// matchLaterBy is matchLater for an entry that has just been found.
func (r *Rxe) matchLaterBy(entry *Entry) {
	entry.settled()
	r.matchLater()
}

// matchLater has a message say what Match does.
func (r *Rxe) matchLater() {
	r.underWay++
	r.pools.env.Sh.Tell(r.ref, &r.matched)
	r.keepIfNew()
}

// Unexpected tells the rxe that its message is in the matcher, since no receive is
// posted for it.
func (r *Rxe) Unexpected() {
	r.keep()
	r.underWay++
	r.pools.env.Sh.Call(r.ref, &r.unexp)
}

// Receive is the rxe's message switch.
func (r *Rxe) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *Matched:
		r.underWay--
		r.onMatched()
	case *Unexpected:
		r.onUnexpected()
	case *peer.Deliver:
		r.onPacket(m.Pkt)
	case *device.SendDone:
		r.onSent(m.Pke)
	case *device.SlotWait:
		r.slotWaits = false
		r.note(trail.GoesOn, uint8(trail.ForRoom), 0, 0)
		r.resume()
	case *peer.Resume:
		r.blocked.Resumed()
		r.note(trail.GoesOn, 0, 0, 0)
		if r.x != nil && r.x.broken != 0 {
			r.x.onBroken()
			return
		}
		r.resume()
	case *continueMsg:
		r.resumeQueued = false
		r.resume()
	case *peer.Grant:
		r.x.onGrant(m.Pke)
	case *peer.Refused:
		r.fail(m.Err)
	case *peer.WhenOver:
		if m.Concerns(r.link, &r.member) {
			r.ext().ticket.Asked()
		}
	case *peer.SendFailed:
		r.onLost(m)
	case *peer.Fail:
		if m.Concerns(r.link, &r.member) && (m.Link != nil || !r.HasPending()) {
			r.fail(m.Err)
		}
	case *peer.Withdrawn:
		r.onWithdrawn(m)
	case *Cancel:
		r.onCancel(m)
	case *Revoke:
		r.onRevoke(m.Region)
	case *Abandon:
		r.onAbandon(m.Err)
	case *actor.Restarting:
		if r.busy {
			r.keepIfNew()
			r.note(trail.Restarted, 0, 0, 0)
			r.fail(ErrInternal)
		}
	}
}

// fail ends the operation. If a receive has matched it, that gets the error. A
// message that is here in full can still be received although its sender is gone.
func (r *Rxe) fail(err error) {
	if !r.busy || r.m.State.over() {
		r.settle()
		return
	}
	if r.m.State < RxAsk && r.stored == r.m.Total {
		return
	}
	if r.m.State < RxAsk && r.link.MayReturn() && errors.Is(err, r.link.Err) && (r.entry != nil || r.wait != nil || r.parked) {
		r.Park()
		return
	}
	if r.m.State == RxAnswer { // the outcome was given, and no peer is there to answer
		if r.pending&pendingAnswer != 0 {
			r.link.AddPending(r.packet(nil, pendingAnswer, 0))
		}
		r.pending = 0
		r.step(RxAnswered)
		r.settle()
		return
	}
	r.end(err)
}

// awaited reports whether the peer waits for us to go on with what it sends.
func (r *Rxe) awaited() bool {
	return (r.m.State == RxMatched || r.m.State < RxAsk) && (r.m.Proto.dc() || protos[r.m.Proto].cts || r.m.Proto.readBased()) && !r.asks() &&
		r.m.Proto != DirectRead
}

// end ends the operation with err.
func (r *Rxe) end(err error) {
	if r.asks() && r.rsp || r.link.Err != nil && r.awaited() { // the peer waits for CTS, RECEIPT or EOR
		r.sendError(errno.ProvPeerAborted)
	} else if r.m.Proto == LongCTSRead && r.m.State == RxMatched && !r.link.Buried() {
		r.link.AddOrphan(r.id)
	}
	if r.step(RxFail) {
		r.ended(err)
	}
}

// ended gives back what an operation that has failed holds.
func (r *Rxe) ended(err error) {
	if r.err == nil {
		r.err = err
	}
	r.pending = 0
	r.discharge()
	for r.head != nil {
		p := r.head
		r.head = p.Next
		p.Free()
	}
	r.tail = nil
	if r.wait != nil {
		r.pools.Unlist(r)
		r.unlisted()
	}
	if x := r.x; x != nil && x.ticket.InLine() && r.link.Err == nil && !r.pools.Closing {
		x.ticket.Withdraw(r.link, r.RequestID())
	}
	if r.x != nil && (r.x.nacked || r.x.refusing) && r.entry != nil {
		r.pools.env.Sh.Tell(r.link.Peer, &peer.Nacked{MsgID: r.first.MsgID})
	}
	r.settle()
}

// onAbandon: the queue pair is closed. Nothing that is under way ever ends, and no
// receive will come for a message that waits.
func (r *Rxe) onAbandon(err error) {
	r.flying, r.pending = 0, 0
	if !r.busy {
		return
	}
	over := r.m.State.over()
	if !r.must(r.m.Abandon()) {
		return
	}
	if over {
		r.settle()
		return
	}
	r.ended(err)
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
		r.x.used.release()
	}
	if r.flying|r.underWay != 0 || r.slotWaits || r.resumeQueued || r.pending != 0 || r.blocked.Queued() || r.x != nil && r.x.ticket.InLine() {
		return
	}
	r.release()
}

// complete gives the outcome, once.
func (r *Rxe) complete() {
	if r.c.Told() {
		return
	}
	if !r.c.move(CallerOutcome) {
		r.violated(machine.NoEdge(CallerOutcome, r.c.state))
		return
	}
	if r.entry == nil {
		r.notifyWritten()
		return
	}
	q := &r.entry.Req
	r.handReceived()
	q.Buf = nil // it is the caller's, although the operation may go on
}

// handReceived counts the outcome and gives it to the sink.
func (r *Rxe) handReceived() {
	q, p := &r.entry.Req, r.pools
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
	q, p := &r.entry.Req, r.pools
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
		q.PutIOV()
		q.More = nil
	}
}

// notifyWritten reports a peer's write, which has no request here.
func (r *Rxe) notifyWritten() {
	if r.span != 0 {
		r.noteReceived()
	}
	r.servedWrite()
	if p := r.pools; r.err == nil && r.first.HasData && p.OnWritten != nil {
		p.OnWritten(r.link, int(r.m.Total), r.first.Data)
	}
}

// release gives the rxe back, for its next use.
func (r *Rxe) release() {
	if r.span != 0 || r.x != nil {
		r.endRest()
	}
	r.member.Leave()
	if r.entry != nil {
		r.pools.Entries.Put(r.entry)
	}
	r.err, r.canceled = nil, nil
	r.freeRx()
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
		x.ticket.Over(r.link)
		r.member.Of(nil)
		r.pools.putRxExt(x, r.link)
	}
}

// freeRx makes the rxe ready for its next use.
func (r *Rxe) freeRx() {
	p := r.pools
	r.id = nextID(r.id)
	r.busy, r.fresh = false, false
	r.entry, r.link, r.next, p.rxFree = nil, nil, p.rxFree, r
}

// step moves the machine; see must.
func (r *Rxe) step(e RxEvent) bool { return r.m.move(e) || r.noStep(e) }

// noStep ends an operation that was to take a step which its machine does not have.
func (r *Rxe) noStep(e RxEvent) bool {
	r.violated(machine.NoEdge(e, r.m.State))
	return false
}

// must reports whether a step was in its machine's table, see Txe.must.
func (r *Rxe) must(err error) bool {
	if err != nil {
		r.violated(err)
	}
	return err == nil
}

func (r *Rxe) violated(err error) {
	err = r.pools.violation(r.link, err)
	if r.m.State.over() {
		r.settle()
		return
	}
	r.end(err)
}

// Ref is the actor's.
func (r *Rxe) Ref() shard.Ref { return r.ref }

// Link is its peer's.
func (r *Rxe) Link() *peer.Link { return r.link }

// MsgID is its message's.
func (r *Rxe) MsgID() uint32 { return r.first.MsgID }

// RequestID is that of the request that it carries out, 0 if there is none.
func (r *Rxe) RequestID() uint64 {
	if r.entry == nil {
		return 0
	}
	if r.entry.Req.Flags&Part != 0 {
		return ^r.entry.Req.ID // to cancel the buffer is not to cancel the messages in it
	}
	return r.entry.Req.ID
}

// Machine gives the state, for snapshots.
func (r *Rxe) Machine() Rx { return r.m }

// Describe says what message it is, as an outcome has it.
func (r *Rxe) Describe(res *Result) {
	// Every field is set, and none twice.
	l := r.link
	res.N, res.Lost, res.Proto, res.Peer = int(r.m.Total), 0, r.m.Proto, l.Handle
	res.Tag, res.Data, res.HasData = r.first.Tag, r.first.Data, r.first.HasData
	res.Err, res.From = nil, &l.Addr
}

// Claim notes that the message is in the matcher no more, and returns the id of
// this use.
func (r *Rxe) Claim() uint32 {
	r.unlisted()
	return r.id
}

// Is reports whether the rxe still has the use id.
func (r *Rxe) Is(id uint32) bool { return r.busy && r.id == id && !r.m.State.over() }

// IsMessage reports whether it receives a message.
func (r *Rxe) IsMessage() bool { return !r.target && (r.entry == nil || r.entry.Req.Kind != KindRead) }

// Concerns reports whether the operation has to do with a region that is being
// closed, see Txe.Concerns.
func (r *Rxe) Concerns(m *mr.Region) bool {
	if r.UsesRegion(m) {
		return true
	}
	if r.entry == nil || r.c.Told() || !r.entry.Req.Touches(m.Bytes()) {
		return false
	}
	r.ext().used.share(m)
	return true
}

// UsesRegion reports whether the operation has m in use.
func (r *Rxe) UsesRegion(m *mr.Region) bool { return r.x != nil && r.x.used.uses(m) }

// Park takes a message of which a part is here out of the matcher, since its peer has
// failed: the rest comes only if the peer comes back, and no receive is to wait for that.
func (r *Rxe) Park() {
	if r.entry != nil {
		return // a receive has matched it, and ends when it sees that the peer has failed
	}
	r.parked = true
	if r.wait != nil {
		r.pools.Unlist(r)
		r.unlisted()
	}
}

// Waits reports whether the message is in the matcher or parked.
func (r *Rxe) Waits() bool {
	return r.busy && r.entry == nil && r.m.State < RxAsk && (r.wait != nil || r.parked)
}

// Parked reports whether it is parked.
func (r *Rxe) Parked() bool { return r.parked }

// Unpark notes that the message's peer is back, and returns what it is to be matched by.
func (r *Rxe) Unpark() (match.Kind, uint64, match.Source) {
	r.parked = false
	return match.KindOf(r.first.Tagged), r.first.Tag, match.Source(r.link.Handle)
}

// Size is the length of the message.
func (r *Rxe) Size() uint64 { return r.m.Total }

// IsHere reports whether all of the message came in its first packets, and fits into n bytes.
func (r *Rxe) IsHere(n int) bool { return r.stored == r.m.Total && r.m.Total <= uint64(n) }

// Fresh reports whether the message has come just now, and nothing keeps it yet.
func (r *Rxe) Fresh() bool { return r.fresh }

// Key is what the message is matched by.
func (r *Rxe) Key() (match.Kind, uint64, match.Source) {
	return match.KindOf(r.first.Tagged), r.first.Tag, match.Source(r.link.Handle)
}

// List returns the rxe's entry for the matcher, made for the endpoint to add.
func (r *Rxe) List() *match.Msg {
	w := r.pools.waiting
	if w == nil {
		w = new(waiting)
	}
	r.pools.waiting, w.next = w.next, nil
	w.msg.Kind = match.KindOf(r.first.Tagged)
	w.msg.Tag, w.msg.Source, w.msg.Owner = r.first.Tag, match.Source(r.link.Handle), int32(r.id&indexMask)
	r.wait = w
	return &w.msg
}

// Listed returns the rxe's entry in the matcher, nil if it has none.
func (r *Rxe) Listed() *match.Msg {
	if r.wait == nil {
		return nil
	}
	return &r.wait.msg
}

// unlisted gives the entry back; the matcher has it no more.
func (r *Rxe) unlisted() {
	if w := r.wait; w != nil {
		r.wait = nil
		w.next, r.pools.waiting = r.pools.waiting, w
	}
}

// HasPending reports it of one operation. What flies when it is over can be a CTS as well, which
// the device is done with soon.
func (r *Rxe) HasPending() bool {
	return r.busy && r.link.Err == nil && (r.m.State == RxAnswer || r.m.State == RxDone && r.flying > 0)
}
