package ope

import (
	"math"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
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
	incoming

	next   *Rxe
	stored uint64

	head *peer.Packet // not copied yet
	tail *peer.Packet // the last of them, nil if there are fewer than two

	again   continueMsg
	matched Matched
	unexp   Unexpected
}

// incoming is what an operation that receives consists of, and what can be said and built
// from that. The rxe and its reader are the only writers.
type incoming struct {
	pools *Pools
	ref   shard.Ref
	id    uint32 // recv_id

	busy      bool
	unkept    bool // it has not had to wait yet, see keep
	target    bool // a peer's write into our memory
	rsp       bool // of our read: the READRSP came
	parked    bool // its peer has failed and may come back, so nobody can receive it
	charged   bool // unexpectedCost
	slotWaits bool
	more      bool  // a continueMsg is under way
	owes      owed  // packets that are to be posted
	told      int32 // messages to it that are under way
	flying    int32 // packets with the device, RDMA reads not counted

	ord      *Order   // nil until a receive matched, and of a peer's write
	wait     *waiting // its entry in the matcher while unexpected
	link     *peer.Link
	m        Rx
	c        Caller
	err      error
	canceled error // what the caller's context said
	x        *rxExt

	says       wire.Eager // the first packet of a message or write; of a read of ours, SendID alone
	born       clock.Time // set as moved is from when it had to wait
	moved      clock.Time // when it last got on
	span       uint64     // in the trail: the message's, then that of the receive
	got        uint64     // bytes in gotPackets, of which the trail has no record yet
	gotPackets uint32
	gotType    wire.Type // of the first

	hold   peer.Hold
	slot   device.SlotWait
	member peer.Member
}

// owed are packets that an rxe has to post.
type owed uint8

const (
	owesAnswer owed = 1 << iota // RECEIPT or EOR
	owesNACK
)

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

// Begin takes an rxe for the message or write whose first packet is pkt; nil if there are MaxOps
// of them in use.
func (p *Pools) Begin(pkt *peer.Packet) *Rxe {
	r := p.rxFree
	if r == nil {
		if !p.growRx() {
			return nil
		}
		return p.Begin(pkt)
	}
	p.rxFree, r.busy = r.next, true
	r.arm(pkt.Link)
	proto := protoOf[pkt.Type]
	r.m.Begin(RxInit, proto, pkt.Length, pkt.Length)
	r.stored = uint64(len(pkt.Payload))
	r.says = pkt.Eager
	r.head = pkt
	p.Mix.Served[proto]++
	if pkt.Ext != nil || pkt.Multi != nil || p.follows {
		r.beginMore(pkt)
	}
	return r
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
		pkt.Multi.Rx = r.ref
	}
}

func (r *incoming) arm(l *peer.Link) {
	r.link = l
	r.c.Start(true)
	r.rsp, r.target, r.parked = false, false, false // the rest is as release left it
	r.unkept = true
}

// keep makes the operation one that waits: the peer knows of it.
func (r *Rxe) keep() {
	r.unkept = false
	r.born = r.pools.env.Sh.Now()
	r.moved = r.born
	r.link.Join(&r.member, r.ref)
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

// Match gives the rxe the request that receives its message, nil if that goes to registered
// memory, and has it go on. A panic is no failure of the caller, which goes on, too.
func (r *Rxe) Match(ord *Order) {
	if ord != nil {
		r.unlisted()
		ord.settled()
		if r.ord = ord; ord.Span != 0 {
			r.followBy(ord)
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
// nor have those that called them. A panic needs no rescue of its own then: it ends what is on
// the stack, up to where the turn or a message is rescued, and is the failure of the rxe all the
// same.
func (r *Rxe) MatchLast(ord *Order) {
	if r.ord = ord; ord.Span != 0 {
		r.followBy(ord)
	}
	sh := r.pools.env.Sh
	if sh.Enter(r.ref) {
		if r.m.Proto == Eager { // as most messages are
			r.onWhole()
			sh.Exit()
			return
		}
		ord.settled()
		r.onMatched()
		sh.Exit()
		r.keepIfNew()
		return
	}
	r.matchLaterBy(ord)
}

// followBy has the receive's trail go on with what happens to the message.
func (r *Rxe) followBy(ord *Order) {
	r.pools.env.Trail.Put(ord.Span, trail.Matched, 0, r.span, 0)
	r.span = ord.Span
}

// matchLaterBy is matchLater for an order that has just been found.
func (r *Rxe) matchLaterBy(ord *Order) {
	ord.settled()
	r.matchLater()
}

// matchLater has a message say what Match does.
func (r *Rxe) matchLater() {
	r.told++
	r.pools.env.Sh.Tell(r.ref, &r.matched)
	r.keepIfNew()
}

// keepIfNew has an operation wait that has just begun and is not over.
func (r *Rxe) keepIfNew() {
	if r.unkept {
		r.keep()
	}
}

// Unexpected tells the rxe that its message is in the matcher, since no receive is
// posted for it.
func (r *Rxe) Unexpected() {
	r.keep()
	r.told++
	r.pools.env.Sh.Call(r.ref, &r.unexp)
}

// Ref is the actor's.
func (r *incoming) Ref() shard.Ref { return r.ref }

// Link is its peer's.
func (r *incoming) Link() *peer.Link { return r.link }

// MsgID is its message's.
func (r *incoming) MsgID() uint32 { return r.says.MsgID }

// RequestID is that of the request that it carries out, 0 if there is none.
func (r *incoming) RequestID() uint64 {
	if r.ord == nil {
		return 0
	}
	if r.ord.Req.Flags&Part != 0 {
		return ^r.ord.Req.ID // to cancel the buffer is not to cancel the messages in it
	}
	return r.ord.Req.ID
}

// Machine gives the state, for snapshots.
func (r *incoming) Machine() Rx { return r.m }

// Receive is the rxe's message switch.
func (r *Rxe) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *Matched:
		r.told--
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
		r.goOn()
	case *peer.Resume:
		r.hold.Resumed()
		r.note(trail.GoesOn, 0, 0, 0)
		if r.x != nil && r.x.broken != 0 {
			r.x.onBroken()
			return
		}
		r.goOn()
	case *continueMsg:
		r.more = false
		r.goOn()
	case *peer.Grant:
		r.x.onGrant(m.Pke)
	case *peer.Refused:
		r.fail(m.Err)
	case *peer.WhenOver:
		if m.Concerns(r.link, &r.member) {
			r.ext().turn.Asked()
		}
	case *peer.SendFailed:
		r.onLost(m)
	case *peer.Fail:
		if m.Concerns(r.link, &r.member) && (m.Link != nil || !r.Owes()) {
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
