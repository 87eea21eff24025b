package nic

import (
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/sys"
)

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
	slot := uint64(b.take())
	if buf := b.slot(slot); len(buf) < ShortRoom || !PutShort((*[ShortRoom]byte)(buf), wr) {
		copy(buf[copy(buf, wr.Header):], wr.Payload)
	}
	e := b.add()
	e.ID, e.Op, e.Len = slot, device.OpRecv, len(wr.Header)+len(wr.Payload)
	e.HasImm, e.Imm = wr.HasImm, wr.Imm
	sign(e, from)
	b.publish()
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
	e := b.add()
	e.ID, e.Op, e.Len = slot, device.OpWritten, max(len(wr.Payload), int(wr.Whole))
	e.HasImm, e.Imm = true, wr.Imm
	sign(e, from)
	b.publish()
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
	e := b.add()
	e.Op, e.ID = device.OpRefused, key
	sign(e, from)
	b.publish()
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

// slot is the memory of a slot.
func (b *Inbox) slot(slot uint64) []byte {
	at := int(slot) * b.stride
	return b.recv[at : at+b.mtu : at+b.mtu]
}

// sign enters the sender in an event.
func sign(e *device.Completion, from *Source) {
	e.SrcQPN = from.QPN
	e.SrcGID = from.GID
	if from.Unknown {
		e.AH = device.UnknownAH
	}
}

func (b *Inbox) put(c device.Completion) {
	b.lock()
	if b.closed {
		b.unlock()
		return
	}
	*b.add() = c
	b.publish()
}

// add is a new event, which is empty. Preconditions: b is locked; publish follows.
func (b *Inbox) add() *device.Completion {
	n := len(b.events)
	if n == cap(b.events) {
		n = b.enlarge()
	}
	b.events = b.events[:n+1]
	e := &b.events[n]
	*e = device.Completion{}
	return e
}

// enlarge makes room for one more event and returns how many there are.
// There are at most as many unread events as slots, pending sends, arrivals without
// a slot (of which there are no more than slots) and deaths, so the list stops
// growing; twice that room keeps the moves to the front rare.
func (b *Inbox) enlarge() int {
	if b.next > 0 {
		n := copy(b.events, b.events[b.next:])
		b.events, b.next = b.events[:n], 0
	}
	b.events = slices.Grow(b.events, 1)
	return len(b.events)
}

// publish shows the owner what was added, unlocks, and wakes the owner if it sleeps.
func (b *Inbox) publish() {
	sys.StoreRelease(&b.ready, 1)
	notify := b.disarm()
	if !b.single {
		b.mu.Unlock() // as unlock does, which would be a call in this place
	}
	if notify {
		b.notify()
	}
}
