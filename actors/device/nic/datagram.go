package nic

import "github.com/efactor/efactor/actors/device"

// A queue pair of unreliable datagrams (device.UD) sends each packet once and does not wait to
// hear what became of it. The carrier is that of other queue pairs, which answers: what it says
// of the other side is not reported, and a packet whose answer is to come is over for the caller
// if the carrier has copied it. So that a receiver that stands still does not pile up
// packets in the carrier, more than a quarter of Depth to one place, and Depth in all, are not
// given to it, but lost.

// asDatagram takes out of c what such a queue pair does not have.
func (c *Config) asDatagram() {
	c.RDMARead, c.RDMAWrite, c.RNRRetry = false, false, 0
}

// postDatagram posts a packet that was checked, as whole.
func (q *QP) postDatagram(wr, whole *device.SendWR) {
	i := uint32(q.token)
	for len(q.toldTo) <= int(wr.AH) {
		q.toldTo = append(q.toldTo, 0)
	}
	st := device.StatusOK
	if q.told == q.cfg.Depth || q.toldTo[wr.AH] >= max(q.cfg.Depth/4, 1) {
		q.stats.Lost++
	} else {
		st = q.launch(whole, q.token)
	}
	switch {
	case st == Pending:
		q.hold(i, whole)
		r := &q.reqs[i]
		r.state = reqPending
		if r.told = q.cfg.CopiesAtPost; !r.told {
			return
		}
		q.told++
		q.toldTo[wr.AH]++
	case len(wr.More) > 0:
		q.dropOwn(&q.reqs[i])
	}
	if st = q.departed(st); st == device.StatusOK && wr.Prompt {
		wr.Over = true
		q.outstanding--
		return
	}
	q.finish(wr.ID, st)
}

// departed is the status of a datagram: OK unless this side is at fault.
func (q *QP) departed(st device.Status) device.Status {
	if st == Pending || st >= device.StatusBadAddress {
		if st != Pending {
			q.stats.Lost++
		}
		return device.StatusOK
	}
	return st
}
