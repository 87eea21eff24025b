package shm

import "github.com/efactor/efactor/actors/device"

// RDMA implements nic.Carrier. The data is copied within the call, so a request is
// bounded by MaxRDMA.
func (p *port) RDMA(wr *device.SendWR, _ uint64) (st device.Status) {
	if !p.exposed.some {
		return p.rdma(wr)
	}
	if !p.safely(func() { st = p.rdma(wr) }, nil) {
		st = device.StatusBadDestQPN
	}
	return st
}

func (p *port) rdma(wr *device.SendWR) device.Status {
	l, st := p.reach(wr)
	if st != device.StatusOK {
		return st
	}
	if st := p.carry(wr, l); st != device.StatusOK {
		return st
	}
	if wr.Kind == device.WRWrite && wr.HasImm {
		// With no receive posted the data is written once more at the next try: it
		// is still the same, and the other side was not notified.
		putNote(&p.note, max(len(wr.Payload), int(wr.Whole)))
		note := *wr
		note.Header, note.Payload, note.More = p.note[:], nil, nil
		return p.put(&note, written|withImm)
	}
	return device.StatusOK
}

// carry moves the data of a WRRead or WRWrite.
func (p *port) carry(wr *device.SendWR, l *link) device.Status {
	region, g := l.grantOf(wr)
	return p.dev.views.carry(wr, region, g)
}

// acceptNote turns the completion of a packet into that of a write. The slot is free
// again: it holds nothing for the caller.
func (p *port) acceptNote(pk *packet, c *device.Completion) int {
	n, ok := parseNote(p.rx.slotBytes(int(pk.slot))[:pk.w.length()])
	if !ok || !c.HasImm {
		p.bad++
		p.repost(pk.slot)
		return 0
	}
	c.Op, c.Len = device.OpWritten, n
	c.AH, c.SrcGID = 0, p.heard[pk.w.sender()].gid // the handle is found by nic.QP
	return 1
}
