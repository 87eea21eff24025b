package nic

// RecvSlots implements device.QP.
func (q *QP) RecvSlots() int { return q.cfg.Slots }

// RecvBytes implements device.QP; nil for a slot that does not exist.
func (q *QP) RecvBytes(slot int) []byte {
	if uint(slot) >= uint(q.RecvSlots()) {
		return nil
	}
	at := slot * q.cfg.Stride
	return q.cfg.Recv[at : at+q.cfg.MTU : at+q.cfg.MTU]
}

// PostRecv implements device.QP. Slots that the caller does not have are
// counted and left alone: posted twice, they would take two packets.
func (q *QP) PostRecv(slots []int32) {
	if q.dead {
		return
	}
	states := q.slots
	for i, s := range slots {
		slot := uint(uint32(s)) // a negative one is too large
		if slot >= uint(len(states)) || states[slot] != slotOwned {
			slots = q.without(slots, i)
			break
		}
		states[slot] = slotPosted
	}
	if len(slots) > 0 {
		q.carrier.PostRecv(slots)
	}
}

// without is slots without those from i on that are not the caller's; the first i are.
func (q *QP) without(slots []int32, i int) []int32 {
	b := append(q.batch[:0], slots[:i]...)
	for _, s := range slots[i:] {
		if uint(s) >= uint(len(q.slots)) || q.slots[s] != slotOwned {
			q.stats.BadPosts++
			continue
		}
		q.slots[s] = slotPosted
		b = append(b, s)
	}
	return b
}

// Stats counts the events of a queue pair.
type Stats struct {
	Sends          uint64 // accepted by PostSend
	SendErrors     uint64 // completed with another status than ok
	QueueFull      uint64 // refused by PostSend: queue full
	RNRs           uint64 // refusals of a receiver that had nothing posted
	Resends        uint64 // device resends after one
	Recvs          uint64 // packets that arrived
	UnknownSenders uint64 // of them, without address handle
	Written        uint64 // writes with immediate that others made
	Denied         uint64 // RDMA requests of others that were refused
	BadPosts       uint64 // slots posted by a caller that did not own them
	Refused        uint64 // entries of the carrier that were impossible
	Lost           uint64 // datagrams of which it is known that they did not arrive
}

// Stats returns the counters so far. Only the owner may call it.
func (q *QP) Stats() Stats { return q.stats }

// Outstanding returns the number of sends that were not polled yet.
func (q *QP) Outstanding() int { return q.outstanding }

// AHs returns the number of address handles in use.
func (q *QP) AHs() int { return len(q.ahs.byGID) }
