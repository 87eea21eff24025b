package nic

import "github.com/efactor/efactor/actors/device"

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
