package device

import (
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// RecvPkt is a received packet in its receive slot. Its holder calls [Queue.Release] once.
type RecvPkt struct {
	View wire.View // the packet, in the slot's memory until Release, and its headers, opened when it arrived
	Err  error     // why it could not be opened; nil: it is a packet
	QPN  uint16    // of the sender; not in the order of Completion, so that each is copied as it was stored
	AH   AH        // of the sender, or UnknownAH
	GID  GID       // set when AH is UnknownAH

	// Remote CQ data that is the packet's immediate data, which a Router that wants it takes from Queue.Imm.
	Imm    uint32
	HasImm bool

	mem     []byte // the slot's
	slot    int32  // noSlot: it is a copy
	queue   *Queue
	arrived Arrived

	Placed []byte // where the payload lies if it is not in the slot
}

// Placer says where the payload of a packet belongs that comes from a queue pair. head is the beginning of the
// packet, of size bytes: all its headers, or as many bytes as a device likes. The last len(dst) bytes of the packet are to go to dst;
// to a slot, as all of it, if that is nil. later: the question is to be asked again when what was polled before
// was handled, if there is any. The answer holds during a call of Poll until the device asks again, which it
// does before each part of the bytes. If the answer is not the same then, it ends the packet with StatusRNR, and has no
// OpPlaced. A Placer changes nothing.
type Placer func(ah AH, qpn uint16, head []byte, size int) (dst []byte, later bool)

// noSlot is the slot of a packet that is a copy.
const noSlot = -1

// Copy moves the packet out of its receive slot, which goes back to the device, so that it can be
// kept for long. The copy is released as a packet in a slot is.
func (r *RecvPkt) Copy() *RecvPkt {
	if r.slot == noSlot {
		return r
	}
	c := &RecvPkt{Err: r.Err, QPN: r.QPN, AH: r.AH, GID: r.GID, Imm: r.Imm, HasImm: r.HasImm, slot: noSlot, queue: copies}
	c.arrived.Pkt = c
	c.mem = append([]byte(nil), r.View.Bytes()...)
	copy(c.mem[len(c.mem)-len(r.Placed):], r.Placed)
	if err := c.View.Open(c.mem); err != nil {
		c.Err = err
	}
	r.Release()
	return c
}

// copies is the queue of all copies: it is throttled, so that Release looks at their slots.
var copies = &Queue{throttled: true}

// Arrived tells a peer, or the endpoint for a stranger, that a packet came.
type Arrived struct {
	shard.Message
	Pkt *RecvPkt
}

// Canceled gives the slot back when the peer stopped with the packet under way.
func (a *Arrived) Canceled() { a.Pkt.Release() }

// Arrived is the packet as a message, to pass it on.
func (r *RecvPkt) Arrived() *Arrived { return &r.arrived }

// Release gives the packet's slot back to the device at the end of the turn.
func (r *RecvPkt) Release() { r.queue.Release(r) }

// Release gives the packet's slot back to the device at the end of the turn, or
// keeps it while the queue is throttled.
func (q *Queue) Release(r *RecvPkt) {
	if q.throttled {
		if r.slot != noSlot {
			q.kept = append(q.kept, r.slot)
		}
		return
	}
	q.repost = append(q.repost, r.slot)
	if len(q.repost) >= q.refill {
		q.flushDue = true
	}
}

// Throttle keeps receive slots back (on), so that senders meet RNR while this
// side has no memory for what nobody asked for, or gives them to the device
// again. Meanwhile Trickle lets some packets in, control packets among them.
func (q *Queue) Throttle(on bool) {
	q.throttled = on
	if !on {
		q.Trickle(len(q.kept))
	}
}

// Trickle gives up to n kept slots to the device, those that were kept longest: where
// slots belong to paths, one that is flooded must not get its own back time and again
// while another has none.
func (q *Queue) Trickle(n int) {
	n = min(n, len(q.kept))
	q.repost = append(q.repost, q.kept[:n]...)
	q.kept = q.kept[:copy(q.kept, q.kept[n:])]
	q.refillNow = n > 0
	q.flushDue = true
}

// Kept is the number of receive slots that are kept back: what Trickle could give to the
// device.
func (q *Queue) Kept() int { return len(q.kept) }

// Slots is the number of receive slots in all.
func (q *Queue) Slots() int { return len(q.rx) }

// Imm is the remote CQ data that came as immediate data of the packet with which
// Router.Deliver is being called, and whether there was any.
func (q *Queue) Imm() (data uint32, has bool) {
	c := &q.comps[q.at-1]
	return c.Imm, c.HasImm
}

// PostSlots gives the device what Trickle has let go, which Flush would do at the end of the
// turn.
func (q *Queue) PostSlots() {
	if len(q.repost) > 0 {
		q.qp.PostRecv(q.repost)
		q.repost, q.refillNow = q.repost[:0], false
	}
}

// Throttled reports whether slots are kept back.
func (q *Queue) Throttled() bool { return q.throttled }
