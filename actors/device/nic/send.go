package nic

import (
	"github.com/efactor/efactor/actors/device"
)

// PostSend implements device.QP.
func (q *QP) PostSend(wr *device.SendWR) error {
	if wr.Kind != device.WRSend || len(wr.More) > 0 || q.cfg.Datagram {
		return q.postOther(wr)
	}
	if q.dead || len(wr.Header)+len(wr.Payload) > q.cfg.MTU || !q.ahs.valid(wr.AH) || q.outstanding >= q.cfg.Depth {
		return q.refuse(wr)
	}
	q.stats.Sends++
	st := q.carrier.Send(wr, q.token)
	if st == device.StatusOK && wr.Prompt {
		wr.Over = true
		return nil
	}
	q.outstanding++
	return q.posted(wr, wr, st)
}

// refuse is the error of PostSend for a request that cannot be posted, nil if there is none.
func (q *QP) refuse(wr *device.SendWR) error {
	if q.dead {
		return device.ErrClosed
	}
	if err := q.cfg.check(wr); err != nil {
		return err
	}
	switch {
	case !q.ahs.valid(wr.AH):
		return device.ErrBadAH
	case q.outstanding >= q.cfg.Depth:
		q.stats.QueueFull++
		return device.ErrQueueFull
	}
	return nil
}

// postOther is PostSend for what is not a packet in one or two pieces, or is a datagram.
func (q *QP) postOther(wr *device.SendWR) error {
	if err := q.refuse(wr); err != nil {
		return err
	}
	q.stats.Sends++
	q.outstanding++
	whole := wr
	if len(wr.More) > 0 {
		whole = q.gather(uint32(q.token), wr)
	}
	if q.cfg.Datagram {
		q.postDatagram(wr, whole)
	} else {
		return q.posted(wr, whole, q.launch(whole, q.token))
	}
	return nil
}

// posted settles what became of a request, which the carrier had as whole.
func (q *QP) posted(wr, whole *device.SendWR, st device.Status) (err error) {
	i := uint32(q.token)
	switch {
	case st == Pending:
		q.keepRequest(i, whole, whole.Stays && q.cfg.RNRRetry < Forever)
		q.reqs[i].state = reqPending
		return nil
	case st == device.StatusRNR && q.cfg.RNRRetry > 0:
		q.keepRequest(i, whole, false)
		q.resendLater(i)
		return nil
	case st == Unsent:
		q.outstanding--
		q.stats.Sends--
		if err = q.Why(wr.AH); err == nil {
			err = device.ErrUnsent
		}
	case st == device.StatusOK && wr.Prompt:
		wr.Over = true
		q.outstanding--
	default:
		q.finish(wr.ID, st)
	}
	if len(wr.More) > 0 {
		q.dropOwn(&q.reqs[i])
	}
	return err
}

// launch hands wr to the carrier, for the first time or again.
func (q *QP) launch(wr *device.SendWR, token uint64) device.Status {
	if wr.Kind == device.WRSend {
		return q.carrier.Send(wr, token)
	}
	if q.cfg.LocalKeys {
		r := q.cfg.Regions.HoldLocal(wr.LKey, wr.Payload, LocalAccess(wr.Kind))
		if r == nil {
			return device.StatusInvalidLKey
		}
		r.Release()
	}
	return q.carrier.RDMA(wr, token)
}

// finish completes a send without a request.
func (q *QP) finish(id uint64, st device.Status) {
	q.done.push(sendDone{id: id, status: st})
	q.countError(st)
}

func (q *QP) countError(st device.Status) {
	if st == device.StatusOK {
		return
	}
	q.stats.SendErrors++
	if st == device.StatusRNR {
		q.stats.RNRs++
	}
}

// Doorbell implements device.QP.
func (q *QP) Doorbell() {
	if q.dead {
		return
	}
	if len(q.waiting) > 0 {
		q.resend()
	}
	q.carrier.Doorbell()
}

// check validates a work request on its own, for PostSend.
func (c *Config) check(wr *device.SendWR) error {
	if len(wr.More) > 0 {
		return c.checkPieces(wr)
	}
	if wr.Kind == device.WRSend {
		if len(wr.Header)+len(wr.Payload) > c.MTU {
			return device.ErrTooLong
		}
		return nil
	}
	switch {
	case wr.Kind == device.WRRead && !(c.RDMARead && !wr.HasImm),
		wr.Kind == device.WRWrite && !c.RDMAWrite,
		wr.Kind > device.WRWrite, len(wr.Header) > 0:
		return device.ErrNotSupported
	case len(wr.Payload) > c.MaxRDMA:
		return device.ErrTooLong
	}
	return nil
}

// LocalAccess is the right that an RDMA request needs on the region at its own
// side.
func LocalAccess(kind device.WR) device.Access {
	if kind == device.WRRead {
		return device.LocalWrite
	}
	return 0
}

// RemoteAccess is the right that it needs on the region at the other side.
func RemoteAccess(kind device.WR) device.Access {
	if kind == device.WRRead {
		return device.RemoteRead
	}
	return device.RemoteWrite
}

// MaxPieces is device.Info's of software devices. They copy a packet anyway, so that
// there could be any number; this one is more than any protocol has use for.
const MaxPieces = 16

// checkPieces is PostSend's look at a request with More.
func (c *Config) checkPieces(wr *device.SendWR) error {
	switch {
	case wr.Kind != device.WRSend, wr.Pieces() > MaxPieces:
		return device.ErrNotSupported
	case wr.Len() > c.MTU:
		return device.ErrTooLong
	}
	return nil
}

// gather makes the pieces of wr one, in memory of request i, and returns the request that
// the carrier gets.
func (q *QP) gather(i uint32, wr *device.SendWR) *device.SendWR {
	r := &q.reqs[i]
	r.own = q.buffer()
	r.wr = *wr
	r.wr.Header, r.wr.Payload, r.wr.More = r.own[:wr.Gather(r.own)], nil, nil
	return &r.wr
}

// buffer is one of MTU bytes.
func (q *QP) buffer() []byte {
	if n := len(q.spare); n > 0 {
		b := q.spare[n-1]
		q.spare = q.spare[:n-1]
		return b
	}
	return make([]byte, q.cfg.MTU)
}

// dropOwn gives a request's memory back.
func (q *QP) dropOwn(r *request) {
	if r.own != nil {
		q.spare = append(q.spare, r.own)
		r.own = nil
	}
}

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
	for len(q.completedTo) <= int(wr.AH) {
		q.completedTo = append(q.completedTo, 0)
	}
	st := device.StatusOK
	if q.completed == q.cfg.Depth || q.completedTo[wr.AH] >= max(q.cfg.Depth/4, 1) {
		q.stats.Lost++
	} else {
		st = q.launch(whole, q.token)
	}
	switch {
	case st == Pending:
		q.keepRequest(i, whole, false)
		r := &q.reqs[i]
		r.state = reqPending
		if r.completed = q.cfg.CopiesAtPost; !r.completed {
			return
		}
		q.completed++
		q.completedTo[wr.AH]++
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
	if st == Unsent {
		return device.StatusQPInternal
	}
	if st == Pending || st >= device.StatusBadAddress {
		if st != Pending {
			q.stats.Lost++
		}
		return device.StatusOK
	}
	return st
}
