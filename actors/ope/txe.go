package ope

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
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
//   - Its peer grants its turn, resumes it and tells of failures; the device
//     queue tells it of packets that arrived and of room; CTS and answers come
//     from its peer.
//   - It posts packets and RDMA writes, and gives the outcome to the request's
//     sink.
//   - It waits for its turn, a CTS, an answer, room, or the end of back-off.
//   - It is never stopped alone; when its endpoint stops, the endpoint has ended
//     it before.
type Txe struct {
	pools *Pools
	ref   shard.Ref
	next  *Txe
	id    uint32 // send_id
	busy  bool

	detached bool // the caller has its outcome already
	leaving  bool // a canceled caller waits until it can be let go
	nacked   bool // the receiver cannot read (§4.7)
	spent    bool // its msg_id is
	rawAddr  bool // optional headers, chosen once per message
	connID   bool
	hasPeer  bool // peerID is known
	farewell bool // the peer is to be told that the operation is given up
	reads    bool // it counts among the read messages in flight

	slotWaits, moreQueued bool

	peerID uint32 // the other side's recv_id, or of a response its id of the request

	moved clock.Time // when it last got on

	ord  *Order // nil between uses
	link *peer.Link
	m    Tx
	err  error
	x    *txExt // what few operations have

	turn   peer.Turn
	more   continueMsg
	hold   peer.Hold
	slot   device.SlotWait
	member peer.Member
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
	ID  uint64 // of the request, lest it has ended
	Err error
}

// Arm fills the txe for a request to l and returns its place in the peer's line.
func (t *Txe) Arm(ord *Order, l *peer.Link) *peer.Turn {
	q := &ord.Req
	if q.Flags&Inject != 0 {
		q.Flags &^= Deliver // nobody waits for it
	}
	t.begin(ord, l, uint64(len(q.Buf)))
	ord.Follow(t.pools.env.Trail, l)
	t.turn.Span = ord.Span
	era := &t.pools.env.Config.Era
	turn := &t.turn
	switch q.Kind {
	case KindWrite:
		t.member.BoundInLine()
		turn.Ask(true, !era.RMANoWait || q.Flags&Deliver != 0)
	case KindSend:
		turn.Ask(false, era.ReadWaits && t.pools.mayRead(l, len(q.Buf)))
	default:
		t.member.BoundInLine()
		turn.Ask(false, false)
	}
	if q.Flags&Deliver != 0 && q.Kind != KindWrite && (q.Kind != KindAtomic || q.Form == AtomicWrite) {
		turn.Need(wire.FeatureDeliveryComplete)
	}
	return turn
}

func (t *Txe) begin(ord *Order, l *peer.Link, total uint64) {
	t.ord, t.link = ord, l
	t.m = Tx{}
	t.m.Total, t.m.steps = total, &t.pools.Steps
	t.err, t.detached, t.leaving, t.nacked, t.spent = nil, false, false, false, false
	t.hasPeer, t.farewell, t.reads = false, false, false
	t.slot.Control = false
	t.turn.Link = l
	t.moved = t.pools.env.Sh.Now()
	l.Join(&t.member, t.ref)
}

// gotOn notes that there was progress.
func (t *Txe) gotOn() {
	t.moved = t.pools.env.Sh.Now()
	t.member.GotOn()
}

// Link is the txe's peer, nil between uses.
func (t *Txe) Link() *peer.Link { return t.link }

// Request gives what the txe was armed with, for snapshots.
func (t *Txe) Request() *Request { return &t.ord.Req }

// Machine gives the state, for snapshots.
func (t *Txe) Machine() Tx { return t.m }

// Ref is the actor's.
func (t *Txe) Ref() shard.Ref { return t.ref }

// Receive is the txe's message switch.
func (t *Txe) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *device.SendDone:
		t.onSent(m.Pke)
	case *peer.Grant:
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
		if m.Concerns(t.link) && (m.Link != nil || !t.Owes() && !t.lent()) {
			t.fail(m.Err)
		}
	case *peer.Withdrawn:
		t.onWithdrawn(m)
	case *peer.Refused:
		t.fail(m.Err)
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
	n, req, runt := p.Bytes, t.isREQ(p), isRunt(p)
	kind, off := p.Kind(), p.Off
	t.pools.env.Q.Free(p)
	if !t.busy {
		return // the queue pair was closed meanwhile
	}
	if req {
		t.link.Arrived()
	}
	t.link.Heard()
	t.gotOn()
	if err := t.m.Ack(n); err != nil {
		t.fail(err)
		return
	}
	switch {
	case kind == device.WRWrite:
		t.note(trail.SegmentDone, uint8(kind), off, uint32(n))
	case t.m.Flying == 0:
		t.note(trail.Acked, 0, t.m.Acked, 0)
	}
	if runt && t.x != nil {
		t.x.runtOver(t.link, n)
	}
	if t.x != nil && t.x.revoked && t.m.State == TxAwait {
		t.letRegionGo()
	}
	if t.leaving && t.canLeave() {
		t.letGo()
	}
}
