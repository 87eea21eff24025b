package nic

import "github.com/efactor/efactor/actors/device"

// Place copies the packet of a WRSend into a posted slot. The status is the
// sender's: OK, RNR, BadDestQPN (closed, or wr.QKey is not ours) or
// RemoteBadLength.
func (b *Inbox) Place(from *Source, wr *device.SendWR) device.Status {
	b.lock()
	switch {
	case b.closed || wr.QKey != b.qkey:
		b.unlock()
		return device.StatusBadDestQPN
	case len(wr.Header)+len(wr.Payload) > b.mtu:
		b.unlock()
		return device.StatusRemoteBadLength
	case b.head == b.tail, wr.Begins && len(b.held) > 0 && b.holds(from, wr.Turn):
		b.unlock()
		return device.StatusRNR
	}
	slot := b.take()
	buf := b.recv[int(slot)*b.stride:]
	n := copy(buf, wr.Header)
	n += copy(buf[n:], wr.Payload)
	notify := b.add()
	e := b.last(from)
	e.ID, e.Op, e.Status, e.Len = uint64(slot), device.OpRecv, device.StatusOK, n
	e.HasImm, e.Imm = wr.HasImm, wr.Imm
	b.unlock()
	if notify {
		b.notify()
	}
	return device.StatusOK
}

// RDMA performs the receiver's part of a WRRead or WRWrite: it moves the bytes
// between wr.Payload and a region of its device, without the lock, and reports the
// completion if there is one. The status is the requester's: OK, BadDestQPN as for
// Place, BadAddress, or RNR of a write with immediate for which nothing was posted
// (or, if unsolicited, too many were not polled).
func (b *Inbox) RDMA(from *Source, wr *device.SendWR, regions *Regions) device.Status {
	b.lock()
	shut := b.closed || wr.QKey != b.qkey
	b.unlock()
	if shut {
		return device.StatusBadDestQPN
	}
	r, mem := regions.Hold(wr.RKey, wr.Remote, len(wr.Payload), RemoteAccess(wr.Kind))
	if r == nil {
		b.refuse(from, wr.RKey)
		return device.StatusBadAddress
	}
	defer r.Release()
	slot := device.NoSlot
	if wr.HasImm {
		var st device.Status
		if slot, st = b.reserve(); st != device.StatusOK {
			return st
		}
	}
	if wr.Kind == device.WRRead {
		copy(wr.Payload, mem)
	} else {
		copy(mem, wr.Payload)
	}
	if wr.HasImm {
		return b.written(from, wr, slot)
	}
	return device.StatusOK
}

// reserve takes a place for the completion of a write with immediate: a slot, or
// room among the loose ones.
func (b *Inbox) reserve() (uint64, device.Status) {
	b.lock()
	defer b.unlock()
	switch {
	case b.closed:
		return 0, device.StatusBadDestQPN
	case b.unsolicited && b.loose >= b.limit, !b.unsolicited && b.head == b.tail:
		return 0, device.StatusRNR
	case b.unsolicited:
		b.loose++
		return device.NoSlot, device.StatusOK
	}
	return uint64(b.take()), device.StatusOK
}

// written reports a write with immediate whose bytes are in place.
func (b *Inbox) written(from *Source, wr *device.SendWR, slot uint64) device.Status {
	b.lock()
	if b.closed {
		b.unlock()
		return device.StatusBadDestQPN
	}
	notify := b.add()
	e := b.last(from)
	e.ID, e.Op, e.Len = slot, device.OpWritten, max(len(wr.Payload), int(wr.Whole))
	e.HasImm, e.Imm = true, wr.Imm
	b.unlock()
	if notify {
		b.notify()
	}
	return device.StatusOK
}

// refuse reports that a request of from for a region key was refused, unless many such
// reports wait already.
func (b *Inbox) refuse(from *Source, key uint64) {
	b.lock()
	if b.closed || b.loose >= b.limit {
		b.unlock()
		return
	}
	b.loose++
	notify := b.add()
	c := b.last(from)
	c.Op, c.ID = device.OpRefused, key
	b.unlock()
	if notify {
		b.notify()
	}
}

// countLoose notes that c was polled.
func (b *Inbox) countLoose(c []device.Completion) {
	for i := range c {
		if op := c[i].Op; op == device.OpRefused || op == device.OpWritten && c[i].ID == device.NoSlot {
			b.loose--
		}
	}
}

// Ack delivers the late status of a send (Carrier.Send's Pending).
func (b *Inbox) Ack(token uint64, st device.Status) {
	b.put(device.Completion{Op: device.OpSend, ID: token, Status: st})
}

// Gone reports to the owner that the queue pair from is dead. Its Q_Key was qkey.
func (b *Inbox) Gone(from *Source, qkey uint32) {
	b.put(device.Completion{Op: device.OpGone, SrcQPN: from.QPN, SrcGID: from.GID, QKey: qkey})
}

// Left reports to the owner that the queue pair from, whose Q_Key was qkey, was closed in
// order.
func (b *Inbox) Left(from *Source, qkey uint32) {
	b.put(device.Completion{Op: device.OpGone, SrcQPN: from.QPN, SrcGID: from.GID, QKey: qkey, Left: true})
}

// take takes a posted slot. Preconditions: there is one, and b is locked.
func (b *Inbox) take() int32 {
	slot := b.posted[b.head&uint32(len(b.posted)-1)]
	b.head++
	return slot
}

// last is the event that add made room for, with the sender entered.
func (b *Inbox) last(from *Source) *device.Completion {
	e := &b.events[len(b.events)-1]
	e.SrcQPN, e.SrcGID = from.QPN, from.GID
	if from.Unknown {
		e.AH = device.UnknownAH
	}
	return e
}

func (b *Inbox) put(c device.Completion) {
	b.lock()
	if b.closed {
		b.unlock()
		return
	}
	notify := b.add()
	b.events[len(b.events)-1] = c
	b.unlock()
	if notify {
		b.notify()
	}
}

// add makes room for one more event and reports whether the owner must be woken.
// There are at most as many unread events as slots, pending sends, arrivals without
// a slot (of which there are no more than slots) and deaths, so the list stops
// growing; twice that room keeps the moves to the front rare.
func (b *Inbox) add() bool {
	if len(b.events) == cap(b.events) && b.next > 0 {
		n := copy(b.events, b.events[b.next:])
		b.events, b.next = b.events[:n], 0
	}
	b.events = append(b.events, device.Completion{})
	b.ready.Store(true)
	return b.disarm() && b.notify != nil
}
