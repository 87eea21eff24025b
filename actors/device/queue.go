package device

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/runtime/shard"
)

// Queue is the actor that owns a queue pair.
//
//   - It owns the QP, the packet entries, the receive slots and the waiting list
//     for room in the send queue.
//   - Actors of its shard post to it by a call, because room in the send queue
//     must be known at once; drivers reach it through Poll.
//   - It sends SendDone to the owner of a packet, SendProblem to its peer,
//     Arrived to the peer that the router names, SlotWait to those that wait for room.
//   - It waits for nothing.
//   - It stops with its endpoint: the QP is closed, entries are dropped.
type Queue struct {
	sh     *shard.Shard
	qp     QP
	router Router

	entered, left uint64 // calls of PostSend; they differ if it panicked
	broken        QP     // the driver's, after Break until Close

	pkes    []Pke
	free    *Pke
	room    int
	reserve reserve

	rx     []RecvPkt
	place  Placer
	placed []RecvPkt // as rx, of packets that were placed; nil before there is one
	repost []int32
	refill int

	control, data waitList
	waiters       int     // in both
	stalled       pkeList // the driver had no room for them

	posted    bool // since the last doorbell
	flushDue  bool // posted or refillNow is set, or a batch of repost is full
	throttled bool
	kept      []int32 // slots kept back while throttled
	written   *Written
	refillNow bool
	gaveRoom  bool // since the last Poll
	comps     [32]Completion
	at, got   int // of comps: the next to be dealt with, and their end

	// Counters are the queue's, read on the shard.
	Counters QueueCounters
}

// QueueConfig is what a Queue needs.
type QueueConfig struct {
	Shard  *shard.Shard
	QP     QP
	SQ, RQ int // depths
	Router Router
	// Refill is how many receive slots are given back at once.
	Refill int
	// Place is that of QPConfig.
	Place Placer
	// Kept: receive slots go to the device by Trickle alone.
	Kept bool
}

// Router finds the actor for a received packet by its source. It belongs to the
// shard, like the queue.
type Router interface {
	// Route returns the peer at (ah, qpn), or the actor that deals with strangers.
	Route(ah AH, qpn uint16) shard.Ref
	// Deliver has the actor that Route names for r's source handle it, at once if nothing
	// is ahead of it.
	Deliver(r *RecvPkt)
}

// NewQueue makes the queue, an actor of c.Shard, which also polls it (AddPoller).
func NewQueue(c QueueConfig) *Queue {
	q := &Queue{
		sh: c.Shard, qp: c.QP, router: c.Router, place: c.Place, refill: max(c.Refill, 1),
		pkes: make([]Pke, c.SQ), room: c.SQ,
		rx: make([]RecvPkt, c.QP.RecvSlots()),
	}
	q.addEntries(q.pkes, 0)
	q.refill = min(q.refill, max(len(q.rx)/2, 1))
	q.kept = make([]int32, 0, len(q.rx))
	q.repost = make([]int32, 0, len(q.rx))
	for i := range q.rx {
		q.rx[i].queue, q.rx[i].slot = q, int32(i)
		q.rx[i].arrived.Pkt = &q.rx[i]
		q.rx[i].mem = c.QP.RecvBytes(i)
		q.repost = append(q.repost, int32(i))
	}
	if c.Kept {
		q.throttled, q.kept, q.repost = true, q.repost, q.kept
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

// Poll takes completions from the device and tells the actors concerned. A
// success is a message to the owner of the packet; any other status goes to the
// peer, which knows about back-off and death.
func (q *Queue) Poll(*shard.Shard) int {
	if q.at == q.got { // else a panic has left some
		q.at, q.got = 0, q.qp.Poll(q.comps[:])
	}
	n := q.got - q.at
	for q.at < q.got {
		c := &q.comps[q.at]
		q.at++
		if c.Op == OpRecv {
			q.onRecv(c)
		} else {
			q.onOther(c)
		}
	}
	if q.stalled.head != nil {
		n += q.unstall()
	}
	if q.waiters > 0 && !q.gaveRoom {
		n += q.wakeWaiters()
	}
	q.gaveRoom = false
	return n
}

// onOther deals with what is not a packet.
func (q *Queue) onOther(c *Completion) {
	switch c.Op {
	case OpSend:
		q.onSend(c)
	case OpPlaced:
		q.onPlaced(c)
	case OpWritten:
		q.onWritten(c)
	case OpRefused:
		q.Counters.RDMARefused++
		q.sh.Tell(q.router.Route(c.AH, c.SrcQPN), &Refused{AH: c.AH, QPN: c.SrcQPN, GID: c.SrcGID, Key: c.ID, Guess: c.Status != StatusOK})
	case OpGone:
		q.onGone(c)
	case OpFatal:
		q.sh.Tell(q.router.Route(UnknownAH, 0), &Fatal{Status: c.Status})
	case OpRecv: // Poll has that
	}
}

func (q *Queue) onSend(c *Completion) {
	p := q.entry(c.ID)
	if p == nil || !p.out {
		return // a driver's fault; nothing here owns it
	}
	p.out = false
	if c.Status == StatusOK && !p.Watch {
		q.Counters.SendDone++
		if p.Owner.IsZero() {
			q.Free(p)
			return
		}
		q.sh.Call(p.Owner, &p.done)
		return
	}
	switch {
	case c.Status == StatusRNR:
		q.Counters.RNR++
	case c.Status == StatusOK:
	case p.wr.Kind == WRRead:
		q.Counters.RDMAReadsFailed++
	case p.wr.Kind == WRWrite:
		q.Counters.RDMAWritesFailed++
	}
	q.Counters.SendProblem++
	p.problem.Status = c.Status
	q.sh.Tell(p.Peer, &p.problem)
}

func (q *Queue) onRecv(c *Completion) {
	if c.ID >= uint64(len(q.rx)) {
		return
	}
	r := &q.rx[c.ID]
	if c.Status != StatusOK || c.Len < 0 {
		r.Release()
		return
	}
	q.Counters.RecvDone++
	q.Counters.RecvBytes += uint64(c.Len)
	if r.AH, r.QPN = c.AH, c.SrcQPN; c.AH == UnknownAH {
		r.GID = c.SrcGID
	}
	if err := r.View.Open(r.mem[:min(c.Len, len(r.mem))]); err != nil || r.Err != nil {
		r.Err = err
	}
	q.router.Deliver(r)
}

// onPlaced takes a packet of which the slot has the headers alone. If its payload does not belong anymore where it
// lies, its message has ended, and zeroes do.
func (q *Queue) onPlaced(c *Completion) {
	if c.ID >= uint64(len(q.rx)) || q.place == nil {
		return
	}
	if q.placed == nil {
		q.placed = make([]RecvPkt, len(q.rx))
	}
	r, mem := &q.placed[c.ID], q.rx[c.ID].mem
	r.queue, r.slot, r.mem, r.arrived.Pkt = q, int32(c.ID), mem, r
	r.AH, r.QPN, r.GID = c.AH, c.SrcQPN, c.SrcGID
	mem = mem[:min(c.Len, len(mem))]
	q.Counters.RecvDone++
	q.Counters.RecvBytes += uint64(c.Len)
	if r.Placed, _ = q.place(c.AH, c.SrcQPN, mem[:min(len(mem), MaxHeader)], len(mem)); r.Placed == nil {
		clear(mem[min(int(c.Imm), len(mem)):])
	}
	r.Err = r.View.Open(mem)
	q.router.Deliver(r)
}

// onWritten: a write with immediate data came. It may have taken a receive slot, in
// which there is nothing.
func (q *Queue) onWritten(c *Completion) {
	if c.ID < uint64(len(q.rx)) {
		q.Release(&q.rx[c.ID])
	}
	w := q.written
	if w == nil {
		w = &Written{queue: q}
	} else {
		q.written = w.next
	}
	w.Len, w.Imm = c.Len, c.Imm
	w.AH, w.QPN, w.GID = c.AH, c.SrcQPN, c.SrcGID
	q.sh.Call(q.router.Route(c.AH, c.SrcQPN), w)
}

// onGone is not on the hot path: a process died, or closed its queue pair.
func (q *Queue) onGone(c *Completion) {
	q.sh.Tell(q.router.Route(c.AH, c.SrcQPN), &Gone{AH: c.AH, QPN: c.SrcQPN, GID: c.SrcGID, QKey: c.QKey, Left: c.Left})
}

// FlushDue implements [shard.Flusher].
func (q *Queue) FlushDue() *bool { return &q.flushDue }

// Flush ends a turn: receive slots go back in batches and the doorbell rings
// once.
func (q *Queue) Flush(*shard.Shard) {
	q.flushDue = false
	if len(q.repost) >= q.refill || q.refillNow {
		q.PostSlots()
	}
	q.Ring()
}

// Ring rings the doorbell if it is due: then the device has taken the bytes of what was posted if it copies
// at post.
func (q *Queue) Ring() {
	if q.posted && !q.Broken() {
		q.posted = false
		q.qp.Doorbell()
	}
}

// Arm gives back what receive slots there are, so that a sleeping queue has them
// all, and asks the device for a notification.
func (q *Queue) Arm() bool {
	q.PostSlots()
	return q.qp.Arm()
}

// FDs are the device's.
func (q *Queue) FDs() []int { return q.qp.FDs() }

// Written tells a peer that its RDMA write of Len bytes with immediate data has
// arrived. Its holder calls Free.
type Written struct {
	shard.Message
	Len int
	Imm uint32 // remote CQ data
	AH  AH     // of the sender, or UnknownAH
	QPN uint16
	GID GID // set when AH is UnknownAH

	queue *Queue
	next  *Written
}

// Free gives the message back.
func (w *Written) Free() { w.next, w.queue.written = w.queue.written, w }

// Refused tells a peer that the device refused an RDMA request of its.
type Refused struct {
	shard.Message
	AH  AH
	QPN uint16
	GID GID    // set when AH is UnknownAH
	Key uint64 // that the request named

	Guess bool // it names no memory here, and did not lately
}

// Fatal tells the endpoint that the queue pair has ended (OpFatal).
type Fatal struct {
	shard.Message
	Status Status
}

// Gone says that the process behind a queue pair died, or that it has Left: closed it.
type Gone struct {
	shard.Message
	AH   AH
	QPN  uint16
	GID  GID
	QKey uint32
	Left bool
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

// PathStats is all that the queue counted, as of one device.
func (c *QueueCounters) PathStats() PathStats {
	return PathStats{
		Sends: c.SendPosted, SendBytes: c.SendBytes, Recvs: c.RecvDone, RecvBytes: c.RecvBytes,
		Reads: c.RDMAReads, ReadBytes: c.RDMAReadBytes,
		Writes: c.RDMAPosted - c.RDMAReads, WriteBytes: c.RDMABytes - c.RDMAReadBytes,
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

// Broken reports whether PostSend of the driver has panicked.
func (q *Queue) Broken() bool { return q.entered != q.left }

// Break ends the use of a driver that panicked.
func (q *Queue) Break() {
	if _, done := q.qp.(brokenQP); !done {
		q.broken, q.qp = q.qp, brokenQP{qpn: q.qp.QPN()}
	}
}

// Close closes the queue pair. A panic of the driver is an error.
func (q *Queue) Close() error {
	qp := q.qp
	if q.broken != nil {
		qp, q.broken = q.broken, nil
	}
	return Guard(qp.Close)
}

// Guard calls a driver, and returns a panic of it as an error.
func Guard(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("device: the driver panicked: %v", r)
		}
	}()
	return call()
}

// A driver that panics is not called again, but to close the queue pair: its state
// is unknown.

// brokenQP takes the place of its queue pair and refuses everything.
type brokenQP struct {
	QPBase
	qpn uint16
}

func (q brokenQP) QPN() uint16 { return q.qpn }

func (brokenQP) CreateAH(GID) (AH, error) { return 0, ErrClosed }

func (brokenQP) DestroyAH(AH) error { return ErrClosed }

func (brokenQP) PostSend(*SendWR) error { return ErrClosed }

func (brokenQP) RecvSlots() int { return 0 }

func (brokenQP) RecvBytes(int) []byte { return nil }

func (brokenQP) PostRecv([]int32) {}

func (brokenQP) Doorbell() {}

func (brokenQP) Poll([]Completion) int { return 0 }

func (brokenQP) Arm() bool { return true }

func (brokenQP) FDs() []int { return nil }

func (brokenQP) Close() error { return nil }
