package device

import "github.com/efactor/efactor/runtime/shard"

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
	case OpWritten:
		q.onWritten(c)
	case OpRefused:
		q.Counters.RDMARefused++
		q.sh.Tell(q.router.Route(c.AH, c.SrcQPN), &Refused{AH: c.AH, QPN: c.SrcQPN, GID: c.SrcGID, Key: c.ID})
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
}

// Fatal tells the endpoint that the queue pair has ended (OpFatal).
type Fatal struct {
	shard.Message
	Status Status
}

// onGone is not on the hot path: a process died, or closed its queue pair.
func (q *Queue) onGone(c *Completion) {
	q.sh.Tell(q.router.Route(c.AH, c.SrcQPN), &Gone{AH: c.AH, QPN: c.SrcQPN, GID: c.SrcGID, QKey: c.QKey, Left: c.Left})
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

// FlushDue implements [shard.Flusher].
func (q *Queue) FlushDue() *bool { return &q.flushDue }

// Flush ends a turn: receive slots go back in batches and the doorbell rings
// once.
func (q *Queue) Flush(*shard.Shard) {
	q.flushDue = false
	if len(q.repost) >= q.refill || q.refillNow {
		q.GiveSlots()
	}
	if q.posted {
		q.posted = false
		q.qp.Doorbell()
	}
}

// Arm gives back what receive slots there are, so that a sleeping queue has them
// all, and asks the device for a notification.
func (q *Queue) Arm() bool {
	q.GiveSlots()
	return q.qp.Arm()
}

// FDs are the device's.
func (q *Queue) FDs() []int { return q.qp.FDs() }
