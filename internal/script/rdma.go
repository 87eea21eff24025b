package script

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// check validates a work request at the post. An error that a correct user never
// makes is a fault.
func (q *QP) check(wr *device.SendWR) error {
	i := &q.dev.info
	n := len(wr.Header) + len(wr.Payload)
	switch {
	case wr.Kind == device.WRSend:
		if n > i.MTU {
			q.fault("packet of %d bytes, MTU %d", n, i.MTU)
			return device.ErrTooLong
		}
		return nil
	case wr.Kind == device.WRRead && !i.RDMARead, wr.Kind == device.WRWrite && !i.RDMAWrite:
		q.fault("RDMA that the device has not")
		return device.ErrNotSupported
	case n > i.MaxRDMA:
		q.fault("RDMA of %d bytes, most %d", n, i.MaxRDMA)
		return device.ErrTooLong
	}
	if i.LocalKeys && n > 0 {
		r := q.dev.regions.HoldLocal(wr.LKey, wr.Payload, nic.LocalAccess(wr.Kind))
		if r == nil {
			q.fault("RDMA with a local side of %d bytes that is not in the region %d", n, wr.LKey)
			return nil
		}
		r.Release()
	}
	return nil
}

// Memory is a region of another endpoint's, for the endpoint under test to read and
// write by RDMA.
type Memory struct {
	GID   device.GID
	QPN   uint16
	Addr  uint64
	Key   uint64
	Bytes []byte
}

// AddMemory lets RDMA requests reach m.
func (q *QP) AddMemory(m *Memory) { q.memory = append(q.memory, m) }

// target finds the memory that a request names.
func (q *QP) target(s *Sent) []byte {
	for _, m := range q.memory {
		if m.GID != s.GID || m.QPN != s.QPN || m.Key != s.RKey || s.Remote < m.Addr {
			continue
		}
		if off := s.Remote - m.Addr; off <= uint64(len(m.Bytes)) && uint64(s.Len) <= uint64(len(m.Bytes))-off {
			return m.Bytes[off:][:s.Len]
		}
	}
	return nil
}

// move carries out an RDMA request. Memory that isn't there ends it as a device
// would.
func (q *QP) move(s *Sent) device.Status {
	mem := q.target(s)
	switch {
	case mem == nil:
		return device.StatusBadAddress
	case s.Kind == device.WRRead:
		copy(s.payload, mem)
	default:
		copy(mem, s.payload)
	}
	return device.StatusOK
}

// CompleteRead ends an RDMA read well with the given data.
func (q *QP) CompleteRead(s *Sent, data []byte) {
	if s.Kind != device.WRRead || len(data) != s.Len {
		q.fault("test: %d bytes for request %d, a read of %d", len(data), s.N, s.Len)
		return
	}
	copy(s.payload, data)
	q.end(s, device.StatusOK)
}

// Written reports that (gid, qpn) has written n bytes with immediate data. If the
// device takes a receive slot for that and none is posted, it reports false.
func (q *QP) Written(gid device.GID, qpn uint16, n int, imm uint32) bool {
	c := q.from(gid, qpn, false)
	c.Op, c.ID, c.Len, c.HasImm, c.Imm = device.OpWritten, device.NoSlot, n, true, imm
	if !q.dev.info.UnsolicitedWrite {
		slot, ok := q.takeSlot()
		if !ok {
			return false
		}
		c.ID = uint64(slot)
	}
	q.comps = append(q.comps, c)
	return true
}

// RefuseRDMA reports that the device has refused a request of (gid, qpn) for a key.
func (q *QP) RefuseRDMA(gid device.GID, qpn uint16, key uint64) {
	c := q.from(gid, qpn, false)
	c.Op, c.ID, c.Status = device.OpRefused, key, device.RefusalOf(q.dev.regions.Knows(key))
	q.comps = append(q.comps, c)
}

// Reach returns the memory here that the other side's RDMA reaches with a key, or
// nil if the device refuses the access.
func (q *QP) Reach(key, addr uint64, n int, a device.Access) []byte {
	r, mem := q.dev.regions.Hold(key, addr, n, a)
	if r == nil {
		return nil
	}
	r.Release()
	return mem
}
