package ope

// How a message is sent, from the API to the device:
//
//  1. api/efa/message.go: Send makes the request, takes its place and hands it over.
//  2. actors/endpoint/requests.go: the endpoint takes it and finds the peer.
//  3. actors/ope/txe.go: a txe is armed with it and submits itself to the peer.
//  4. actors/peer/send.go: admit gives it a msg_id and a packet entry if it waits for nothing.
//  5. actors/ope/txe_eager.go: the txe builds and posts the eager packet; txe_send.go begins what else there is.

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
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
	outgoing

	more continueMsg
	next *Txe
}

// outgoing is what an operation that sends consists of, and what can be said and built
// from that. The txe is its only writer.
type outgoing struct {
	pools *Pools
	ref   shard.Ref
	id    uint32 // send_id

	busy    bool
	entered bool // Send is at work on it
	rawAddr bool // optional headers, chosen once per message
	connID  bool
	marks

	peerID uint32 // the other side's recv_id, or of a response its id of the request

	moved clock.Time // when it last got on

	q    *Request // the caller's until the operation waits, then ord's
	ord  *Order   // nil as long as it has not had to wait, and between uses
	base uint64   // of a caller that has gone: where in the message q.Buf begins
	link *peer.Link
	m    Tx
	c    Caller
	err  error
	x    *txExt // what few operations have

	turn   peer.Turn
	hold   peer.Hold
	slot   device.SlotWait
	member peer.Member
}

// marks are what an operation notes of itself. All are unset between uses.
type marks struct {
	nacked   bool // the receiver cannot read (§4.7)
	spent    bool // its msg_id is
	hasPeer  bool // peerID is known
	reads    bool // it counts among the read messages in flight
	abortDue bool // PEER_ERROR is due once no packet is under way
	gathers  gathering

	slotWaits  bool
	moreQueued bool
}

type continueMsg struct{ shard.Message }

// lateMsg ends the patience with a canceled send.
type lateMsg struct {
	shard.Message
	timer shard.Timer
	id    uint64 // of the request
}

// Cancel asks an operation to let its caller go (endpoint -> operation).
type Cancel struct {
	shard.Message
	ID  uint64 // of the request, which may have ended
	Err error
}

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
		l.SubmitLater(&t.turn)
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
	if pke := l.Submit(&t.turn); pke != nil { // its turn has come at once
		t.onGrant(pke)
	}
	sh.Exit()
	t.entered = false
	t.keepIfBusy()
	return begun
}

// keepIfBusy has an operation wait that is not over.
func (t *Txe) keepIfBusy() {
	if t.busy && t.ord == nil {
		t.keep()
	}
}

// arm fills the txe for a request to l.
func (t *Txe) arm(q *Request, l *peer.Link) {
	t.q, t.link = q, l
	t.turn.Ask(false, false)
}

// prepare is what has to be seen to, beside its turn, of an operation that is more than a plain
// message, or of every one in an endpoint that follows what happens.
func (t *Txe) prepare() {
	q, l, env := t.q, t.link, t.pools.env
	if q.Flags&(Inject|Deliver) == Inject|Deliver {
		q.Flags &^= Deliver // its caller has gone on
	}
	if env.Trail != nil {
		t.turn.Span = follow(env.Trail, q, l)
	}
	era := &env.Config.Era
	switch q.Kind {
	case KindSend:
		if era.ReadWaits {
			t.turn.Await = t.pools.mayRead(l, q.Len())
		}
	case KindWrite:
		t.member.BoundInLine(l)
		t.turn.Ask(true, !era.RMANoWait || q.Flags&Deliver != 0)
	default:
		t.member.BoundInLine(l)
	}
	if q.Flags&(Deliver|Fence|Ordered|Follows) != 0 {
		t.wants()
	}
}

// unasked reports whether delivery complete goes to a peer that has not said what it
// knows.
func (t *Txe) unasked() bool { return t.pools.env.Config.Era.DCUnasked && !t.link.Known() }

// keep makes the operation one that waits: it has its own copy of the request, and the
// peer knows of it.
func (t *Txe) keep() {
	t.moved = t.pools.env.Sh.Now()
	t.ord = t.pools.Orders.Get(t.q, t.moved)
	t.q = &t.ord.Req
	t.m.Expect(uint64(t.q.Len()))
	t.link.Join(&t.member, t.ref)
	if q := t.q; q.Flags&Borrowed != 0 && t.m.State == TxReq && len(q.Buf) > 0 {
		x := t.ext()
		x.block = t.pools.env.Pool.Block(len(q.Buf))
		q.Buf = x.block[:copy(x.block, q.Buf)]
	}
}

// gotOn notes that there was progress.
func (t *outgoing) gotOn() {
	t.moved = t.pools.env.Sh.Now()
	t.member.GotOn(t.link)
}

// Link is the txe's peer, nil between uses.
func (t *outgoing) Link() *peer.Link { return t.link }

// Request gives what the txe was armed with, for snapshots.
func (t *outgoing) Request() *Request { return t.q }

// Machine gives the state, for snapshots.
func (t *outgoing) Machine() Tx { return t.m }

// Ref is the actor's.
func (t *outgoing) Ref() shard.Ref { return t.ref }

// Receive is the txe's message switch.
func (t *Txe) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *device.SendDone:
		t.onSent(m.Pke)
	case *peer.Grant:
		t.turn.Taken()
		t.onGrant(m.Pke)
	case *peer.Deliver:
		t.onPacket(m.Pkt)
	case *device.SlotWait:
		t.slotWaits = false
		t.note(trail.GoesOn, uint8(trail.ForRoom), 0, 0)
		t.pump(nil)
		t.settle()
	case *peer.Resume:
		t.hold.Resumed()
		t.note(trail.GoesOn, 0, 0, 0)
		t.pump(nil)
		t.settle()
	case *continueMsg:
		t.moreQueued = false
		t.pump(nil)
		t.settle()
	case *peer.SendFailed:
		t.onLost(m)
	case *peer.Fail:
		if m.Concerns(t.link, &t.member) && (m.Link != nil || !t.Owes() && !t.lent()) {
			t.fail(m.Err)
		}
	case *peer.Withdrawn:
		t.onWithdrawn(m)
	case *peer.Refused:
		t.fail(m.Err)
	case *peer.WhenOver:
		if m.Concerns(t.link, &t.member) {
			t.ext() // for release to look
			t.turn.Asked()
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
	t.gotOn()
	if !t.must(t.m.Ack(n)) {
		return
	}
	if t.turn.Span != 0 {
		t.outgoing.noteArrived(kind, off, n)
	}
	if runt {
		t.x.runtOver(t.link, n)
	}
	switch t.c.state {
	case CallerRevoked:
		t.letRegionGo()
	case CallerLeaving:
		if t.mayCopy() {
			t.letGo()
		}
	default:
	}
}
