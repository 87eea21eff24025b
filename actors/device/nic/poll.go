package nic

import "github.com/efactor/efactor/actors/device"

// Poll implements device.QP. Sends and arrivals take turns at being first, so that
// neither starves the other when c is short.
func (q *QP) Poll(c []device.Completion) int {
	if q.dead {
		return 0
	}
	if len(q.waiting) > 0 {
		q.resend()
	}
	events, n := c, 0
	if q.arrivalsAt = !q.arrivalsAt; !q.arrivalsAt && !q.done.empty() {
		n = q.pollDone(c)
		events = c[n:]
	}
	first, got := n, q.carrier.Poll(events)
	for i := range events[:got] {
		e := &events[i]
		// The slot and the length of an arrival may come from memory that others write to.
		if e.Op != device.OpRecv || e.ID >= uint64(len(q.slots)) || q.slots[e.ID] != slotPosted || uint(e.Len) > uint(q.cfg.MTU) {
			if !q.onOther(e) {
				continue
			}
		} else {
			q.slots[e.ID] = slotOwned
			q.stats.Recvs++
			if q.findSource(e); e.AH == device.UnknownAH {
				q.stats.UnknownSenders++
			}
			if q.cfg.UserRecv {
				q.landed(e)
			}
		}
		if n != first+i {
			c[n] = *e
		}
		n++
		if q.dead {
			return n
		}
	}
	if !q.done.empty() {
		n += q.pollDone(c[n:])
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
