//go:build linux

package uverbs

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// Poll implements device.QP.
func (q *QP) Poll(c []device.Completion) int {
	if q.closed {
		return 0
	}
	if q.armed {
		q.armed = false
		q.lookAsync() // first: it says why there are no more events of the other kind
		q.readEvents()
	}
	n := 0
	for ; n < len(c) && len(q.sq.refused) > 0; n++ {
		c[n] = device.Completion{ID: q.sq.refuse(), Op: device.OpSend, Status: device.StatusBadAddress}
	}
	for n < len(c) && !q.failed {
		r := q.cq.next()
		if r == nil {
			break
		}
		var e abi.CQE
		_ = e.Parse(r.entry()) // never too short
		r.head++
		q.cq.consumed++
		if q.take(&e, &c[n]) {
			n++
		}
	}
	if n == 0 {
		return q.pollNothing(c)
	}
	q.cq.tell(false)
	return n
}

// lookEvery is how many empty polls there are between two looks at the asynchronous
// events of a queue pair that never sleeps: a few milliseconds.
const lookEvery = 1 << 15

// pollNothing is a poll that found no completion.
func (q *QP) pollNothing(c []device.Completion) int {
	if q.empty++; q.empty%lookEvery == 0 {
		q.lookAsync()
	}
	if !q.failed || q.told || len(c) == 0 {
		return 0
	}
	q.told = true
	c[0] = device.Completion{Op: device.OpFatal, Status: q.status}
	return 1
}

// take turns an entry into a completion; false: it is of a queue pair that is gone, or
// the device lies and q has failed.
func (q *QP) take(e *abi.CQE, c *device.Completion) bool {
	if e.QPN != q.number && (e.Queue == abi.SendQueue || e.Queue == abi.RecvQueue) {
		q.stale++
		return false
	}
	switch e.Queue {
	case abi.SendQueue:
		return q.sent(e, c)
	case abi.RecvQueue:
		return q.received(e, c)
	}
	q.lies("a completion of queue %d", e.Queue)
	return false
}

func (q *QP) sent(e *abi.CQE, c *device.Completion) bool {
	reqID := uint16(e.ReqID) // above it nothing is promised: the queue was not made for wide ids
	id, known, ok := q.sq.finish(reqID)
	switch {
	case ok:
		*c = device.Completion{ID: id, Op: device.OpSend, Status: device.Status(e.Status)}
	case !known:
		q.stale++
	default:
		q.lies("request %#x has ended, which was not under way", reqID)
	}
	return ok
}

func (q *QP) received(e *abi.CQE, c *device.Completion) bool {
	*c = device.Completion{
		ID: device.NoSlot, Op: device.OpRecv, Status: device.Status(e.Status),
		HasImm: e.HasImm, Imm: abi.Immediate(e.Imm), AH: device.AH(e.AH), SrcQPN: e.SrcQPN, Len: int(e.Length),
	}
	if e.Op == abi.WorkWrite {
		c.Op = device.OpWritten
	} else {
		c.SrcGID = e.GID
	}
	if e.Unsolicited {
		return q.unsolicited(e, c)
	}
	slot, known, ok := q.rq.finish(uint16(e.ReqID))
	switch {
	case !known:
		q.stale++
		return false
	case !ok:
		q.lies("receive %#x has ended, which was not posted", e.ReqID)
		return false
	case c.Op == device.OpWritten && !e.HasImm:
		q.lies("a write that nobody asked for: %+v", *e)
		return false
	}
	if c.Op == device.OpRecv && c.Status == device.StatusOK {
		c.Len -= q.rq.head // which counts as part of a datagram
	}
	if c.Op == device.OpRecv && (c.Len > q.mtu || c.Len < 0) {
		q.lies("a packet of %d bytes", c.Len)
		return false
	}
	c.ID = uint64(slot)
	if c.Status != device.StatusOK {
		c.Op, c.Len = device.OpRecv, 0
	}
	q.source(c)
	return true
}

// unsolicited is a write with immediate data that has taken no receive.
func (q *QP) unsolicited(e *abi.CQE, c *device.Completion) bool {
	if !q.dev.info.UnsolicitedWrite || c.Op != device.OpWritten || !e.HasImm || c.Status != device.StatusOK {
		q.lies("a write that nobody asked for: %+v", *e)
		return false
	}
	q.source(c)
	return true
}

// source says who the sender is. The device knows the address handles of all queue pairs
// of this program; here those of this one count.
func (q *QP) source(c *device.Completion) {
	switch {
	case q.peers.knows(c.AH):
		c.SrcGID = device.GID{}
	case c.AH != device.UnknownAH:
		c.SrcGID, c.AH = q.peers.all.gid(uint16(c.AH)), device.UnknownAH
	}
}

// lies ends the queue pair: nothing that the device says is relied on any more.
func (q *QP) lies(format string, args ...any) {
	q.fail(device.StatusQPInternal, fmt.Errorf("%w: %s", errLies, fmt.Sprintf(format, args...)))
}

// fail ends the queue pair.
func (q *QP) fail(st device.Status, why error) {
	if q.failed {
		return
	}
	q.failed, q.status = true, st
	q.dev.log.Warn("uverbs: a queue pair has failed", "device", q.dev.info.Name, "qpn", q.number, "err", why)
}

// A queue pair that is to sleep arms its completion queue: the device puts one event into
// the channel for the next completion. What came between the last Poll and the arming is
// found by a last look at the ring, so no event is lost.

// Arm implements device.QP. Without events the device cannot be slept on.
func (q *QP) Arm() bool {
	if q.closed {
		return false
	}
	if q.lookAsync(); q.failed {
		return q.told
	}
	if q.res.channel == noEvents {
		return false
	}
	q.readEvents() // one that came late: with its number the queue would not be armed again
	q.cq.tell(true)
	q.armed = true
	return len(q.sq.refused) == 0 && !q.cq.any()
}

// FDs implements device.QP.
func (q *QP) FDs() []int { return q.fds }

// readEvents reads the events of completions that have come.
func (q *QP) readEvents() {
	if q.res.channel == noEvents {
		return
	}
	for {
		var b [16 * abi.CompEventLen]byte
		n, err := q.res.channel.read(b[:], abi.CompEventLen)
		if err != nil {
			q.fail(device.StatusQPInternal, fmt.Errorf("completion channel: %w", err))
		}
		q.cq.serial += uint8(n)
		if n < len(b)/abi.CompEventLen {
			return
		}
	}
}

// lookAsync reads asynchronous events, also of a queue pair that has failed: what it saw may
// come of the device being gone.
func (q *QP) lookAsync() {
	if q.res.async == noEvents {
		return
	}
	for {
		var b [abi.AsyncEventLen]byte
		n, err := q.res.async.read(b[:], abi.AsyncEventLen)
		if err != nil {
			q.fail(device.StatusQPInternal, fmt.Errorf("asynchronous events: %w", err))
		}
		if n == 0 {
			return
		}
		var e abi.AsyncEvent
		_ = e.Parse(b[:])
		q.event(&e)
	}
}

// event deals with an asynchronous event. A port that is down ends nothing: what is sent
// then ends with a status.
func (q *QP) event(e *abi.AsyncEvent) {
	switch e.Type {
	case abi.EventCQError:
		q.fail(device.StatusQPInternal, fmt.Errorf("asynchronous event: completion queue in error"))
	case abi.EventQPFatal:
		q.fail(device.StatusQPInternal, fmt.Errorf("asynchronous event: queue pair in error"))
	case abi.EventDeviceFatal:
		q.dev.ctx.gone.Store(true)
		q.fail(device.StatusAbort, fmt.Errorf("asynchronous event: the device was reset or taken away"))
	case abi.EventPortActive, abi.EventPortError:
		q.dev.log.Info("uverbs: the port has changed", "device", q.dev.info.Name, "up", e.Type == abi.EventPortActive)
	}
}
