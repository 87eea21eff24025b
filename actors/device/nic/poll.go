package nic

import (
	"math"

	"github.com/efactor/efactor/actors/device"
)

// Poll implements device.QP.
func (q *QP) Poll(c []device.Completion) int {
	if q.dead {
		return 0
	}
	if q.outstanding > 0 {
		return q.pollBoth(c)
	}
	if got := q.carrier.Poll(c); got > 0 {
		return q.arrivals(c[:got])
	}
	return 0
}

// pollBoth is Poll with sends outstanding. They and arrivals take turns at being first, so that
// neither starves the other when c is short.
func (q *QP) pollBoth(c []device.Completion) int {
	if len(q.waiting) > 0 {
		q.resend()
	}
	n := 0
	if q.arrivalsAt = !q.arrivalsAt; !q.arrivalsAt && !q.done.empty() {
		n = q.pollDone(c)
	}
	if got := q.carrier.Poll(c[n:]); got > 0 {
		n += q.arrivals(c[n : n+got])
	}
	if !q.done.empty() {
		n += q.pollDone(c[n:])
	}
	return n
}

// arrivals looks at events of the carrier, and leaves those that are the caller's in place.
func (q *QP) arrivals(events []device.Completion) (n int) {
	for i := range events {
		e := &events[i]
		// The slot and the length of an arrival may come from memory that others write to.
		if slot := e.ID; e.Op == device.OpRecv && slot < uint64(len(q.slots)) && q.slots[slot] == slotPosted && uint(e.Len) <= uint(q.cfg.MTU) {
			q.slots[slot] = slotOwned
			q.stats.Recvs++
			if !q.cfg.FindsAH {
				q.findSource(e)
			}
			if e.AH == device.UnknownAH {
				q.stats.UnknownSenders++
			}
		} else if !q.onOther(e) {
			continue
		} else if q.dead {
			events[n] = *e
			return n + 1 // it was the last that is reported, and done is empty
		}
		if n != i {
			events[n] = *e
		}
		n++
	}
	return n
}

// pollDone yields completed sends.
func (q *QP) pollDone(c []device.Completion) int {
	n := 0
	for n < len(c) && !q.done.empty() {
		d := q.done.pop()
		c[n] = device.Completion{}
		c[n].ID, c[n].Op, c[n].Status = d.id, device.OpSend, d.status
		n++
	}
	q.outstanding -= n
	return n
}

// onOther looks at an event of the carrier that is not a good arrival; false: it is impossible, or
// none of the caller's.
func (q *QP) onOther(e *device.Completion) bool {
	switch e.Op {
	case device.OpSend:
		return q.onStatus(e)
	case device.OpPlaced:
		return q.onPlaced(e)
	case device.OpWritten:
		return q.onWritten(e)
	case device.OpRefused:
		return q.onRefused(e)
	case device.OpFatal: // the last that is reported
		q.dead, q.waiting = true, q.waiting[:0]
		q.done.drop()
		return true
	case device.OpGone:
		e.AH = q.ahs.find(&e.SrcGID)
		return true
	default: // OpRecv with what cannot be, or no event that there is
		q.stats.Refused++
		return false
	}
}

// onPlaced checks a packet whose payload lies elsewhere, and finds its sender.
func (q *QP) onPlaced(e *device.Completion) bool {
	if e.ID >= uint64(len(q.slots)) || q.slots[e.ID] != slotPosted || uint(e.Len) > uint(q.cfg.MTU) || uint(e.Imm) > uint(e.Len) {
		q.stats.Refused++
		return false
	}
	q.slots[e.ID] = slotOwned
	q.stats.Recvs++
	q.findSource(e)
	return true
}

// Place asks the owner where the payload of a packet belongs, see device.Placer. It is the carrier's to call.
func (q *QP) Place(gid *device.GID, qpn uint16, head []byte, size int) (dst []byte, later bool) {
	if ah := q.ahs.find(gid); ah != device.UnknownAH {
		return q.cfg.Place(ah, qpn, head, size)
	}
	return nil, false
}

// onWritten checks a write with immediate that arrived, and finds its requester.
func (q *QP) onWritten(e *device.Completion) bool {
	slot := e.ID
	if (slot == device.NoSlot) != q.cfg.UnsolicitedWrite || uint64(e.Len) > math.MaxUint32 ||
		slot != device.NoSlot && (slot >= uint64(len(q.slots)) || q.slots[slot] != slotPosted) {
		q.stats.Refused++
		return false
	}
	if slot != device.NoSlot {
		q.slots[slot] = slotOwned
	}
	e.HasImm = true
	q.findSource(e)
	q.stats.Written++
	return true
}

// onRefused takes a carrier's event that it refused a request of another queue
// pair.
func (q *QP) onRefused(e *device.Completion) bool {
	q.findSource(e)
	q.stats.Denied++
	return true
}

// findSource replaces SrcGID in e by its address handle if there is one.
func (q *QP) findSource(e *device.Completion) {
	if e.AH == device.UnknownAH {
		return
	}
	if e.AH = q.ahs.find(&e.SrcGID); e.AH != device.UnknownAH {
		e.SrcGID = device.GID{}
	}
}

// RecvSlots implements device.QP.
func (q *QP) RecvSlots() int { return q.cfg.Slots }

// RecvBytes implements device.QP; nil for a slot that does not exist.
func (q *QP) RecvBytes(slot int) []byte {
	if uint(slot) >= uint(q.RecvSlots()) {
		return nil
	}
	at := slot * q.cfg.Stride
	return q.cfg.Recv[at : at+q.cfg.MTU : at+q.cfg.MTU]
}

// PostRecv implements device.QP. Slots that the caller does not have are
// counted and left alone: posted twice, they would take two packets.
func (q *QP) PostRecv(slots []int32) {
	if q.dead {
		return
	}
	states := q.slots
	for i, s := range slots {
		slot := uint(uint32(s)) // a negative one is too large
		if slot >= uint(len(states)) || states[slot] != slotOwned {
			slots = q.without(slots, i)
			break
		}
		states[slot] = slotPosted
	}
	if len(slots) > 0 {
		q.carrier.PostRecv(slots)
	}
}

// without is slots without those from i on that are not the caller's; the first i are.
func (q *QP) without(slots []int32, i int) []int32 {
	b := append(q.batch[:0], slots[:i]...)
	for _, s := range slots[i:] {
		if uint(s) >= uint(len(q.slots)) || q.slots[s] != slotOwned {
			q.stats.BadPosts++
			continue
		}
		q.slots[s] = slotPosted
		b = append(b, s)
	}
	return b
}
