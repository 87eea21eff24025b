package nic

import (
	"math"

	"github.com/efactor/efactor/actors/device"
)

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
