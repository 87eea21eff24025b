package ope

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
)

// Rxe is the actor of one message being received, from its first packet on. (A
// posted receive for which nothing came yet is an entry in the matcher.)
//
//   - It owns the packets that wait for a receive, the request once one matched,
//     and its machine.
//   - The endpoint tells it of the match; its peer gives it packets; the device
//     queue tells it of room and of packets of its own that arrived.
//   - It copies data into the application's buffer, posts CTS, and gives the
//     outcome to the request's sink.
//   - It waits for a match, for data, for room to post CTS.
//   - It is never stopped alone; when its endpoint stops, the endpoint has ended
//     it before.
type Rxe struct {
	pools *Pools
	ref   shard.Ref
	next  *Rxe
	busy  bool
	id    uint32 // recv_id

	ord    *Order   // nil until a receive matched
	wait   *waiting // its entry in the matcher while unexpected
	link   *peer.Link
	m      Rx
	err    error
	drop   bool // the caller is gone: data is counted and thrown away
	done   bool // the outcome was given
	told   int  // words of the endpoint on a match that are under way
	flying int  // CTS packets with the device
	stored uint64

	msgID      uint32
	sendID     uint32
	tag, data  uint64
	hasData    bool
	tagged     bool
	head, tail *peer.Packet // not copied yet

	hold      peer.Hold
	slot      device.SlotWait
	member    peer.Member
	slotWaits bool
	matched   Matched
	unexp     Unexpected
}

// Matched tells an rxe that a receive was found for its message
// (endpoint -> rxe). The request is in the rxe already.
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

// Begin arms the rxe for the message whose first packet is pkt.
func (r *Rxe) Begin(pkt *peer.Packet) {
	r.link = pkt.Link
	r.m = Rx{Total: pkt.Length, Proto: protoOf(pkt), steps: &r.pools.Steps}
	r.err, r.drop, r.done, r.told, r.flying = nil, false, false, 0, 0
	r.stored = uint64(len(pkt.Payload))
	r.msgID, r.sendID, r.tag = pkt.MsgID, pkt.SendID, pkt.Tag
	r.data, r.hasData = pkt.Data, pkt.HasData
	r.head, r.tail = pkt, pkt
	r.link.Join(&r.member, r.ref)
	r.tagged = pkt.Tagged
	if pkt.Multi != nil {
		pkt.Multi.Rx = r.ref
	}
}

// Match gives the rxe the request that receives its message, and returns the
// message that makes it go on.
func (r *Rxe) Match(ord *Order) *Matched {
	ord.settled()
	r.unlisted()
	r.ord = ord
	r.told++
	return &r.matched
}

// Unexpected returns the message that tells the rxe that its message is in the
// matcher.
func (r *Rxe) Unexpected() *Unexpected {
	r.told++
	return &r.unexp
}

// Ref is the actor's.
func (r *Rxe) Ref() shard.Ref { return r.ref }

// Link is its peer's.
func (r *Rxe) Link() *peer.Link { return r.link }

// RequestID is that of the receive that matched, 0 if none did.
func (r *Rxe) RequestID() uint64 {
	if r.ord == nil {
		return 0
	}
	return r.ord.Req.ID
}

// Machine gives the state, for snapshots.
func (r *Rxe) Machine() Rx { return r.m }

// Receive is the rxe's message switch.
func (r *Rxe) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *Matched:
		r.onMatched()
	case *Unexpected:
		r.onUnexpected()
	case *peer.Deliver:
		r.onPacket(m.Pkt)
	case *device.SendDone:
		r.pools.env.Q.Free(m.Pke)
		if r.busy { // else the queue pair was closed meanwhile
			r.flying--
			r.link.Heard()
			r.settle()
		}
	case *device.SlotWait:
		r.slotWaits = false
		r.grant()
		r.settle()
	case *peer.Resume:
		r.hold.Resumed()
		r.grant()
		r.settle()
	case *peer.SendFailed:
		r.pools.env.Q.Free(m.Pke)
		if r.busy {
			r.flying--
			r.lostCTS(m.Err)
		}
	case *peer.Fail:
		if m.Concerns(r.link) {
			r.fail(m.Err)
		}
	case *Cancel:
		r.onCancel(m)
	case *Abandon:
		r.onAbandon(m.Err)
	case *actor.Restarting:
		if r.busy {
			r.fail(ErrInternal)
		}
	}
}

func (r *Rxe) onUnexpected() {
	r.told--
	if r.m.State == RxErr {
		r.settle() // the peer failed while this was under way
		return
	}
	if r.m.State != RxInit {
		return // matched already, by a receive posted in the same turn
	}
	_ = r.m.Step(RxNoRecv) // from RXE_INIT
	for p := r.head; p != nil; p = p.Next {
		r.keep(p)
	}
}

// keep copies a packet out of the receive slot while its message waits.
func (r *Rxe) keep(p *peer.Packet) {
	if !p.Own() {
		r.pools.env.Sh.Tell(r.link.Peer, &peer.Remove{Err: peer.ErrHoard, Tell: true})
	}
}

func (r *Rxe) onMatched() {
	r.told--
	if r.m.State == RxErr {
		r.settle() // the peer failed while the match was under way
		return
	}
	if err := r.m.Step(RxMatch); err != nil {
		r.fail(err)
		return
	}
	for r.head != nil {
		p := r.head
		r.head, p.Next = p.Next, nil
		r.take(p)
	}
	r.tail = nil
	if r.link.Err != nil && r.m.State == RxMatched {
		r.fail(r.link.Err) // what is missing will not come
		return
	}
	r.grant()
	r.settle()
}

// lostCTS: the sender will never hear of its window. It is failed, since it would
// wait for ever.
func (r *Rxe) lostCTS(err error) {
	r.pools.env.Sh.Tell(r.link.Peer, &peer.Remove{
		Err: fmt.Errorf("%w: a CTS is lost: %w", peer.ErrPeerFailed, err), Tell: true,
	})
	r.fail(err)
}

// onPacket takes a further packet of the message: a segment of a medium message
// or CTSDATA.
func (r *Rxe) onPacket(p *peer.Packet) {
	ok := r.busy && p.Link == r.link
	if p.Multi != nil {
		ok = ok && p.MsgID == r.msgID
	} else {
		ok = ok && p.RecvID == r.id && r.m.State == RxMatched
	}
	if !ok || r.m.State > RxMatched {
		r.pools.env.Counters.BadID++
		p.Free()
		return
	}
	if r.m.State == RxMatched {
		r.take(p)
		r.grant()
		r.settle()
		return
	}
	if r.m.State == RxUnexp {
		r.keep(p)
	}
	r.stored += uint64(len(p.Payload))
	p.Next = nil
	if r.tail == nil {
		r.head = p
	} else {
		r.tail.Next = p
	}
	r.tail = p
}
