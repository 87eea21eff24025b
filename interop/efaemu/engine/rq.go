package engine

import (
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// recvQueue is the engine's side of a receive queue. Counts are of descriptors and
// run freely.
type recvQueue struct {
	entries, sges int
	posted        uint32 // by the doorbell
	fetched       uint32 // copied from the ring
	done          uint32 // of receives that were used
	word          uint32 // of the doorbell, as last seen
	early         bool   // it rang too early

	descs []abi.RxDesc // fetched and not done, at their places
	open  receive      // whose last descriptor hasn't come
	recvs fifo[receive]

	free     []int32 // slots of the device that are ours
	batch    []int32
	inDevice int // slots that are posted

	starved fifo[arrival] // found no receive
}

// receive is one posted receive: n descriptors from first on.
type receive struct {
	id    uint16
	first uint32
	n     int
}

func (r *recvQueue) init(c *QPConfig) {
	*r = recvQueue{
		entries: c.RQEntries, sges: min(c.MaxRecvSGE, c.RQEntries), descs: make([]abi.RxDesc, c.RQEntries),
	}
}

func (r *recvQueue) drop() {
	r.starved, r.recvs = fifo[arrival]{}, fifo[receive]{}
	r.inDevice, r.free = 0, nil
}

// desc is the descriptor with count n.
func (r *recvQueue) desc(n uint32) *abi.RxDesc { return &r.descs[int(n)&(r.entries-1)] }

// lookRQ reads the receive doorbell.
func (q *QP) lookRQ() {
	r := &q.rq
	if r.entries == 0 {
		return
	}
	w := load(q.cfg.RQDoorbell)
	if w == r.word {
		return
	}
	if q.state == reset {
		if !r.early {
			r.early = true
			q.e.find(RuleRQState, q.where, "%#x", w)
		}
		return
	}
	r.word = w
	pc, reserved := abi.ParseWorkDoorbell(w)
	if reserved {
		q.e.find(RuleRQDoorbell, q.where, "%#x", w)
	}
	r.posted += uint32(pc - uint16(r.posted))
	if r.posted-r.done > uint32(r.entries) {
		q.e.find(RuleRQOverrun, q.where, "%d descriptors posted, %d of them used, %d entries", r.posted, r.done, r.entries)
	}
	if r.posted-r.fetched > uint32(r.entries) {
		r.fetched, r.open = r.posted, receive{} // their contents are unknown
		q.fail()
		r.done = r.posted
	}
}

// fetchReceives copies descriptors from the ring, once: the program could change
// them.
func (q *QP) fetchReceives() bool {
	r := &q.rq
	q.lookRQ()
	n := 0
	for ; n < 4*fetchBatch && r.fetched != r.posted && r.fetched-r.done < uint32(r.entries); n++ {
		d := r.desc(r.fetched)
		at := int(r.fetched) & (r.entries - 1) * abi.RxDescLen
		var raw [abi.RxDescLen]byte
		copy(raw[:], q.cfg.RQ[at:])
		_ = d.Parse(raw[:]) // never too short
		q.join(d)
		r.fetched++
	}
	return n > 0
}

// join adds descriptor fetched to the receive that it belongs to.
func (q *QP) join(d *abi.RxDesc) {
	r := &q.rq
	if d.Reserved {
		q.e.find(RuleRxReserved, q.where, "receive %#x", d.ReqID)
	}
	if d.First != (r.open.n == 0) {
		q.e.find(RuleRxFlags, q.where, "receive %#x: first %t with %d buffers before", d.ReqID, d.First, r.open.n)
		if d.First {
			r.recvs.push(r.open)
			r.open.n = 0
		}
	}
	if r.open.n == 0 {
		r.open = receive{id: d.ReqID, first: r.fetched}
	}
	r.open.n++
	if !d.Last && r.open.n == r.sges {
		q.e.find(RuleRxSGE, q.where, "receive %#x: more than %d", r.open.id, r.sges)
	}
	if d.Last || r.open.n == r.sges {
		r.recvs.push(r.open)
		r.open = receive{}
	}
}

// refill gives the device as many slots as there are receives for later packets. Of datagrams it
// has all: nobody sends them again, so a receive must count from its doorbell on, not from when
// the engine has seen that.
func (q *QP) refill() {
	r := &q.rq
	n := min(r.recvs.len()-r.inDevice-r.starved.len(), len(r.free))
	if q.cfg.Datagram {
		n = len(r.free)
	}
	if n <= 0 {
		return
	}
	keep := len(r.free) - n
	r.batch = append(r.batch[:0], r.free[keep:]...)
	r.free = r.free[:keep]
	r.inDevice += n
	q.dev.PostRecv(r.batch)
}
