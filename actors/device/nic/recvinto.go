package nic

import "github.com/efactor/efactor/actors/device"

// recvInto are the receives into the caller's buffers (device.QPConfig.UserRecv). Each
// has a slot while it is posted, from which what arrives is copied.
type recvInto struct {
	posted []device.RecvWR // by slot
	free   []int32         // slots without one
}

func newRecvInto(slots int) recvInto {
	r := recvInto{posted: make([]device.RecvWR, slots), free: make([]int32, slots)}
	for i := range r.free {
		r.free[i] = int32(slots - 1 - i)
	}
	return r
}

// PostRecvInto implements device.QP.
func (q *QP) PostRecvInto(wr *device.RecvWR) error {
	switch n := len(q.into.free); {
	case q.dead:
		return device.ErrClosed
	case !q.cfg.UserRecv:
		return device.ErrNotSupported
	case n == 0:
		return device.ErrQueueFull
	case q.cfg.LocalKeys && !q.copyInto(wr, nil):
		return device.ErrBadKey
	default:
		slot := q.into.free[n-1]
		q.into.free = q.into.free[:n-1]
		q.into.posted[slot] = *wr
		q.slots[slot] = slotPosted
		q.carrier.PostRecv(append(q.batch[:0], slot))
		return nil
	}
}

// landed rewrites e, which took a slot, for the receive that it stands for.
func (q *QP) landed(e *device.Completion) {
	slot := int32(e.ID)
	wr := &q.into.posted[slot]
	switch {
	case e.Op != device.OpRecv || e.Status != device.StatusOK:
	case e.Len > len(wr.Mem):
		e.Status, e.Len = device.StatusLocalBadLength, 0
	case !q.copyInto(wr, q.slotBytes(int(slot))[:e.Len]):
		e.Status, e.Len = device.StatusInvalidLKey, 0
	}
	e.ID = wr.ID
	*wr = device.RecvWR{}
	q.into.free = append(q.into.free, slot)
}

// copyInto copies b to the beginning of wr.Mem; false: that is not in the region that
// wr.LKey names.
func (q *QP) copyInto(wr *device.RecvWR, b []byte) bool {
	if q.cfg.LocalKeys {
		r := q.cfg.Regions.HoldLocal(wr.LKey, wr.Mem, device.LocalWrite)
		if r == nil {
			return false
		}
		defer r.Release()
	}
	copy(wr.Mem, b)
	return true
}
