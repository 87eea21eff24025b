package engine

import (
	"errors"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

const (
	noSlot = -1
	// maxStarved bounds the writes with immediate of a device that takes no
	// receives for them, while the program wants that and has none.
	maxStarved = 4096
)

// arrival is a packet or write that came from the device and has not completed.
type arrival struct {
	slot   int32 // has the packet; noSlot: a write
	length int
	hasImm bool
	imm    uint32
	gid    device.GID
	srcQPN uint16
	loose  bool // takes no receive
}

// arrived takes a packet, or the news of a write, from the device.
func (q *QP) arrived(c *device.Completion) {
	r := &q.rq
	a := arrival{
		slot: noSlot, length: c.Len, hasImm: c.HasImm, imm: c.Imm, gid: q.routes.source(c), srcQPN: c.SrcQPN,
	}
	if c.ID != device.NoSlot {
		if r.inDevice == 0 || c.ID >= uint64(q.dev.RecvSlots()) {
			q.e.stats.Dropped++
			return
		}
		r.inDevice--
	}
	switch {
	case c.Op == device.OpRecv && c.ID != device.NoSlot && c.Status == device.StatusOK && uint(c.Len) <= uint(q.e.info.MTU):
		a.slot = int32(c.ID)
	case c.Op == device.OpWritten:
		if c.ID != device.NoSlot { // nothing in it
			r.free = append(r.free, int32(c.ID))
		}
		a.loose = q.cfg.UnsolicitedWrite
	default:
		if c.ID != device.NoSlot {
			r.free = append(r.free, int32(c.ID))
		}
		q.e.stats.Dropped++
		return
	}
	q.deliver(&a)
}

// stepStarved completes arrivals for which there was no receive.
func (q *QP) stepStarved() bool {
	r := &q.rq
	worked := false
	for r.recvs.len() > 0 && q.state < failed {
		a, ok := r.starved.pop()
		if !ok {
			break
		}
		q.deliver(&a)
		worked = true
	}
	return worked
}

// deliver completes an arrival, or lets it wait for a receive.
func (q *QP) deliver(a *arrival) {
	r := &q.rq
	cqe := abi.CQE{
		Queue: abi.RecvQueue, QPN: q.number, HasImm: a.hasImm, Imm: abi.Immediate(a.imm), Length: uint32(a.length),
		AH: abi.UnknownAH, SrcQPN: a.srcQPN, Unsolicited: a.loose,
	}
	if a.slot == noSlot {
		cqe.Op = abi.WorkWrite
		if a.length > 0xffff && q.cfg.RecvCQ.cfg.EntrySize < abi.WideCQELen {
			q.e.find(RuleCQLength, q.where, "%d bytes", a.length)
		}
	}
	if !a.loose {
		rx, ok := r.recvs.pop()
		if !ok && q.cfg.Datagram && q.fetchReceives() {
			rx, ok = r.recvs.pop()
		}
		switch {
		case ok:
		case q.cfg.Datagram:
			q.lose(a)
			return
		default:
			q.starve(a)
			return
		}
		cqe.ReqID = uint64(rx.id)
		if a.slot != noSlot {
			st := q.place(rx, q.dev.RecvBytes(int(a.slot))[:a.length])
			if q.state >= failed {
				return
			}
			cqe.Status = uint8(st)
			cqe.Length += uint32(q.routeHeader())
			r.free = append(r.free, a.slot)
		}
		r.done += uint32(rx.n)
	}
	if peer := q.cfg.PD.byGID[a.gid]; peer != nil {
		cqe.AH = peer.number
	} else {
		q.e.stats.UnknownSenders++
		if q.cfg.RecvCQ.cfg.SGID {
			cqe.GID = a.gid
		}
	}
	if cqe.Status == 0 {
		q.e.stats.ReceivedBytes += uint64(a.length)
	}
	q.received(&cqe)
}

// received writes a completion of the receive queue.
func (q *QP) received(cqe *abi.CQE) {
	q.e.stats.Received[cqe.Op][statusIndex(device.Status(cqe.Status))]++
	q.cfg.RecvCQ.put(q.cfg.RecvSub, cqe)
}

// lose drops a datagram for which there is no receive.
func (q *QP) lose(a *arrival) {
	q.rq.free = append(q.rq.free, a.slot)
	q.e.stats.Dropped++
}

func (q *QP) starve(a *arrival) {
	if q.rq.starved.len() < maxStarved {
		q.rq.starved.push(*a)
		return
	}
	q.e.stats.Dropped++
}

// routeHeader is how many bytes of a receive lie before the packet. No header is written there,
// since the card does not say that there is one.
func (q *QP) routeHeader() int {
	if q.cfg.Datagram {
		return abi.RouteHeaderLen
	}
	return 0
}

// place scatters a packet into a receive. All of it is checked before any is
// written.
func (q *QP) place(rx receive, b []byte) device.Status {
	skip := q.routeHeader()
	room := -skip
	for i := range rx.n {
		d := q.rq.desc(rx.first + uint32(i))
		if _, _, f := q.cfg.PD.local(d.LKey, d.Addr, uint64(d.Length), device.LocalWrite); f != noFault {
			return q.blameReceive(f, rx, d)
		}
		room += int(d.Length)
	}
	if len(b) > room {
		q.e.find(RuleRxShort, q.where, "receive %#x: room for %d bytes, the packet has %d", rx.id, max(room, 0), len(b))
		return device.StatusLocalBadLength
	}
	for i := 0; len(b) > 0; i++ {
		d := q.rq.desc(rx.first + uint32(i))
		before := min(skip, int(d.Length))
		skip -= before
		n := min(len(b), int(d.Length)-before)
		if n == 0 {
			continue
		}
		in, va, _ := q.cfg.PD.local(d.LKey, d.Addr+uint64(before), uint64(n), device.LocalWrite)
		if err := in.WriteAt(b[:n], va); err != nil {
			if errors.Is(err, memory.ErrGone) {
				q.vanish()
				return device.StatusFlushed
			}
			return q.blameReceive(badMemory, rx, d)
		}
		b = b[n:]
	}
	return device.StatusOK
}

func (q *QP) blameReceive(f fault, rx receive, d *abi.RxDesc) device.Status {
	q.e.find(rxRule[f], q.where, "receive %#x: %d bytes at %#x, lkey %#x", rx.id, d.Length, d.Addr, d.LKey)
	return device.StatusInvalidLKey
}

// flushReceives completes the receives that are posted.
func (q *QP) flushReceives() bool {
	r := &q.rq
	worked := r.recvs.len() > 0
	for {
		rx, ok := r.recvs.pop()
		if !ok {
			break
		}
		r.done += uint32(rx.n)
		q.received(&abi.CQE{
			Queue: abi.RecvQueue, QPN: q.number, ReqID: uint64(rx.id), Status: uint8(device.StatusFlushed), AH: abi.UnknownAH,
		})
	}
	return worked
}
