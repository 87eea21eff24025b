package device

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/runtime/shard"
)

// Router finds the actor for a received packet by its source. It belongs to the
// shard, like the queue.
type Router interface {
	// Route returns the peer at (ah, qpn), or the actor that deals with strangers.
	Route(ah AH, qpn uint16) shard.Ref
	// Deliver has the actor that Route names for r's source handle it, at once if nothing
	// is ahead of it.
	Deliver(r *RecvPkt)
}

// Lend makes memory readable by others under a key of its own, see [QP].
func (q *Queue) Lend(path uint8, lkey uint32, mem []byte) (rkey uint64, err error) {
	return q.qp.Lend(path, lkey, mem)
}

// Return ends what Lend began.
func (q *Queue) Return(path uint8, rkey uint64) { q.qp.Return(path, rkey) }

// LendPlain makes memory that is in no region readable by one queue pair, see [QP].
func (q *Queue) LendPlain(ah AH, qpn uint16, mem []byte) (rkey, addr uint64, err error) {
	return q.qp.LendPlain(ah, qpn, mem)
}

// Relend has it read from elsewhere.
func (q *Queue) Relend(path uint8, rkey uint64, mem []byte) error {
	return q.qp.Relend(path, rkey, mem)
}

// Pulse changes while the process of a queue pair runs, see [QP].
func (q *Queue) Pulse(ah AH, qpn uint16) (uint32, bool) { return q.qp.Pulse(ah, qpn) }

// QueueConfig is what a Queue needs.
type QueueConfig struct {
	Shard  *shard.Shard
	QP     QP
	SQ, RQ int // depths
	Router Router
	// Refill is how many receive slots are given back at once.
	Refill int
	// Kept: receive slots go to the device by Trickle alone.
	Kept bool
}

// Queue is the actor that owns a queue pair.
//
//   - It owns the QP, the packet entries, the receive slots and the waiting list
//     for room in the send queue.
//   - Actors of its shard post to it by a call, because room in the send queue
//     must be known at once; drivers reach it through Poll.
//   - It sends SendDone to the owner of a packet, SendProblem to its peer,
//     Arrived to the peer that the router names, SlotFree to waiters.
//   - It waits for nothing.
//   - It stops with its endpoint: the QP is closed, entries are dropped.
type Queue struct {
	sh     *shard.Shard
	qp     QP
	router Router

	entered, left uint64 // calls of PostSend; they differ if it panicked
	broken        QP     // the driver's, after Break until Close

	pkes []Pke
	free *Pke
	room int
	reserve

	rx     []RecvPkt
	repost []int32
	refill int

	control, data waitList
	waiters       int     // in both
	stalled       pkeList // the driver had no room for them

	posted    bool // since the last doorbell
	flushDue  bool // posted or refillNow is set, or a batch of repost is full
	throttled bool
	held      []int32 // slots kept back while throttled
	written   *Written
	refillNow bool
	gaveRoom  bool // since the last Poll
	comps     [32]Completion
	at, got   int // of comps: the next to be dealt with, and their end

	// Counters are the queue's, read on the shard.
	Counters QueueCounters
}

// QueueCounters count a queue's traffic.
type QueueCounters struct {
	SendPosted, SendDone, SendProblem, RecvDone, RNR uint64
	SendBytes, RecvBytes                             uint64
	SlotWaits, Stalled                               uint64
	RDMAPosted, RDMABytes, RDMARefused               uint64

	ResentTypes         [256]uint64 // of SendPosted, packets sent again after RNR, by type
	Resent, ResentBytes uint64      // the same in all
	RDMAReads           uint64      // of RDMAPosted, the rest are writes
	RDMAReadBytes       uint64
	RDMAReadsFailed     uint64
	RDMAWritesFailed    uint64
}

// NewQueue makes the queue; register it with [Queue.Start].
func NewQueue(c QueueConfig) *Queue {
	q := &Queue{
		sh: c.Shard, qp: c.QP, router: c.Router, refill: max(c.Refill, 1),
		pkes: make([]Pke, c.SQ), room: c.SQ,
		rx: make([]RecvPkt, c.QP.RecvSlots()),
	}
	q.enter(q.pkes, 0)
	q.refill = min(q.refill, max(len(q.rx)/2, 1))
	q.held = make([]int32, 0, len(q.rx))
	q.repost = make([]int32, 0, len(q.rx))
	for i := range q.rx {
		q.rx[i].queue, q.rx[i].slot = q, int32(i)
		q.rx[i].arrived.Pkt = &q.rx[i]
		q.rx[i].mem = c.QP.RecvBytes(i)
		q.repost = append(q.repost, int32(i))
	}
	if c.Kept {
		q.throttled, q.held, q.repost = true, q.repost, q.held
	}
	return q
}

// Receive handles the actor's life; the data path is Poll.
func (q *Queue) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		q.qp.PostRecv(q.repost)
		q.repost = q.repost[:0]
	case *actor.Stopped:
		_ = q.Close() // nothing more to do about a driver that cannot close
	}
}

// EachOut calls f for every packet that the device has or that waits for a
// resend, on behalf of owner.
func (q *Queue) EachOut(owner shard.Ref, f func(*Pke)) {
	q.each(func(p *Pke) bool {
		if p.Owner == owner {
			f(p)
		}
		return true
	})
}

// Holds reports whether packets to peer are with the device or wait for a resend.
func (q *Queue) Holds(peer shard.Ref) bool {
	found := false
	q.each(func(p *Pke) bool {
		found = p.Peer == peer
		return !found
	})
	return found
}

// QP gives the queue pair, for address handles.
func (q *Queue) QP() QP { return q.qp }
