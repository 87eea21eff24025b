package nic

import "github.com/efactor/efactor/actors/device"

// check is PostSend's look at a work request on its own.
func (q *QP) check(wr *device.SendWR) error {
	if wr.Kind == device.WRSend {
		if len(wr.Header)+len(wr.Payload) > q.cfg.MTU {
			return device.ErrTooLong
		}
		return nil
	}
	switch {
	case wr.Kind == device.WRRead && !(q.cfg.RDMARead && !wr.HasImm),
		wr.Kind == device.WRWrite && !q.cfg.RDMAWrite,
		wr.Kind > device.WRWrite, len(wr.Header) > 0:
		return device.ErrNotSupported
	case len(wr.Payload) > q.cfg.MaxRDMA:
		return device.ErrTooLong
	}
	return nil
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

// LocalAccess is what an RDMA request needs of the region at its own side.
func LocalAccess(kind device.WR) device.Access {
	if kind == device.WRRead {
		return device.LocalWrite
	}
	return 0
}

// RemoteAccess is what it needs of the region at the other side.
func RemoteAccess(kind device.WR) device.Access {
	if kind == device.WRRead {
		return device.RemoteRead
	}
	return device.RemoteWrite
}

// onWritten checks a write with immediate that came, and finds who made it.
func (q *QP) onWritten(e *device.Completion) bool {
	slot := e.ID
	if (slot == device.NoSlot) != q.cfg.UnsolicitedWrite || uint(e.Len) > uint(q.cfg.MaxRDMA) ||
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

// onRefused takes the carrier's word that it refused a request of somebody.
func (q *QP) onRefused(e *device.Completion) bool {
	q.findSource(e)
	q.stats.Denied++
	return true
}

// findSource puts the address handle of SrcGID into e, in its place if there is
// one.
func (q *QP) findSource(e *device.Completion) {
	if e.AH != device.UnknownAH {
		e.AH = q.ahs.find(&e.SrcGID)
	}
	if e.AH != device.UnknownAH {
		e.SrcGID = device.GID{}
	}
}
