//go:build linux

package uverbs

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/actors/device/uverbs/mmio"
)

// sendQueue is the send queue of a queue pair. Work requests are built in ordinary
// memory, stage, which is as long as the ring in the device, and copied there when the
// doorbell rings. Counts run freely.
type sendQueue struct {
	stage, llq []byte
	db         *uint32
	shape      geometry
	lap        uint8 // the bit of a count that tells laps of the ring apart
	batch      uint32
	posted     uint32 // built
	rung       uint32 // given to the device

	reqs []request // by the lower bits of their ids
	free []uint16
	ids  tagged

	refused []uint16 // RDMA requests that the device does not get to see

	work  abi.WQE // being built
	small [abi.MaxInlineWide]byte

	// Copies of what is sent, each bytes for a request, in the region lkey.
	copies []byte
	each   int
	lkey   uint32
}

// request is a work request that may be under way.
type request struct {
	id   uint64 // the user's
	live bool
}

// tagged are the ids of requests: a number in the lower bits, and above a tag that
// distinguishes queue pairs, so that a completion for one that is gone is not taken for
// another's.
type tagged struct {
	mask, tag uint16
}

func newTagged(n int, tag uint16) tagged {
	mask := uint16(roundUp(n) - 1)
	return tagged{mask: mask, tag: tag * (mask + 1)}
}

func (t tagged) id(n uint16) uint16 { return n | t.tag }

// number is the lower bits; false: the id is another queue pair's.
func (t tagged) number(id uint16) (uint16, bool) { return id & t.mask, id&^t.mask == t.tag }

// most is the largest number of WQEs between two doorbells.
func (g geometry) most(r *abi.ContextResp) uint32 {
	n := g.sq
	if r.MinSQ != 0 {
		n--
	}
	if units := int(r.MaxTxBatch); units > 0 {
		n = min(n, units*abi.WQELen/g.wqe)
	}
	return uint32(max(n, 1))
}

func (s *sendQueue) init(g geometry, depth int, tag uint16) {
	s.shape, s.lap = g, logOf(g.sq)
	s.stage = make([]byte, g.sq*g.wqe)
	s.reqs, s.free = make([]request, depth), make([]uint16, 0, depth)
	for i := range depth {
		s.free = append(s.free, uint16(depth-1-i))
	}
	s.ids = newTagged(depth, tag)
}

// send makes a packet out of wr: within the WQE if it is short, or else from a copy. A
// payload in a region goes out from its place.
func (s *sendQueue) send(n uint16, wr *device.SendWR, size int) {
	w := &s.work
	switch {
	case size <= s.shape.inline:
		wr.Gather(s.small[:size])
		w.Inline, w.Length, w.Data = true, uint16(size), s.small[:size]
	case wr.LKey == 0 || len(wr.More) > 0 || len(wr.Payload) == 0 || s.shape.sges < 2 && len(wr.Header) > 0:
		b := s.copyOf(n)[:size]
		wr.Gather(b)
		w.Length, w.SGE[0] = 1, abi.SGE{Length: uint32(size), LKey: s.lkey, Addr: addressOf(b)}
	default:
		if len(wr.Header) > 0 {
			b := s.copyOf(n)[:len(wr.Header)]
			copy(b, wr.Header)
			w.SGE[0] = abi.SGE{Length: uint32(len(b)), LKey: s.lkey, Addr: addressOf(b)}
			w.Length = 1
		}
		w.SGE[w.Length] = abi.SGE{Length: uint32(len(wr.Payload)), LKey: wr.LKey, Addr: addressOf(wr.Payload)}
		w.Length++
	}
}

// copyOf is the room for the bytes of request n.
func (s *sendQueue) copyOf(n uint16) []byte { return s.copies[int(n)*s.each:][:s.each:s.each] }

// rdma makes an RDMA request out of wr.
func (s *sendQueue) rdma(op abi.WorkOp, wr *device.SendWR) {
	w, local, key := &s.work, wr.Payload, wr.LKey
	if len(local) == 0 && len(wr.More) > 0 {
		local, key = wr.More[0].Mem, wr.More[0].LKey
	}
	n := uint32(len(local))
	w.Op, w.Length = op, 1
	w.SGE[0] = abi.SGE{Length: n, LKey: key, Addr: addressOf(local)}
	w.Remote = abi.RemoteAddr{Length: n, RKey: uint32(wr.RKey), Addr: wr.Remote}
}

// begin takes a request for wr; false: all are under way.
func (s *sendQueue) begin(wr *device.SendWR) (n uint16, ok bool) {
	if len(s.free) == 0 {
		return 0, false
	}
	n = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.reqs[n] = request{wr.ID, true}
	s.work = abi.WQE{
		ReqID: uint64(s.ids.id(n)), HasImm: wr.HasImm, Imm: abi.Immediate(wr.Imm), Meta: true, First: true, Last: true, CompReq: true,
		Phase: s.posted>>s.lap&1 == 1, DestQPN: wr.QPN, AH: uint16(wr.AH), QKey: wr.QKey,
	}
	return n, true
}

// stageWork puts the work request that was built in its place.
func (s *sendQueue) stageWork() {
	at := s.at(s.posted)
	s.work.Append(s.stage[at:at:at+s.shape.wqe], s.shape.wqe)
	s.posted++
}

// at is where in the ring the WQE with a count lies.
func (s *sendQueue) at(n uint32) int { return int(n) & (s.shape.sq - 1) * s.shape.wqe }

// flush gives the device what was staged, with one doorbell unless the device takes
// fewer at a time.
func (s *sendQueue) flush() {
	for s.rung != s.posted {
		n := min(s.posted-s.rung, s.batch)
		from, size := s.at(s.rung), int(n)*s.shape.wqe
		s.rung += n
		if rest := len(s.llq) - from; size > rest { // round the end of the ring
			mmio.Copy(&s.llq[from], &s.stage[from], uintptr(rest)/abi.WQELen)
			from, size = 0, size-rest
		}
		mmio.Post(&s.llq[from], &s.stage[from], uintptr(size)/abi.WQELen, s.db, abi.WorkDoorbell(uint16(s.rung)))
	}
}

// refuse ends a refused request.
func (s *sendQueue) refuse() (id uint64) {
	n := s.refused[0]
	s.refused = s.refused[1:]
	id, _, _ = s.finish(s.ids.id(n))
	return id
}

// finish ends a request. known is false for one that was another queue pair's, ok for
// one that was not under way.
func (s *sendQueue) finish(reqID uint16) (id uint64, known, ok bool) {
	n, known := s.ids.number(reqID)
	if !known || int(n) >= len(s.reqs) || !s.reqs[n].live {
		return 0, known, false
	}
	s.reqs[n].live = false
	s.free = append(s.free, n)
	return s.reqs[n].id, true, true
}

// recvQueue is the receive queue of a queue pair: slots of one MTU, each with a
// descriptor when it is posted.
type recvQueue struct {
	descs []byte
	db    *uint32
	mask  uint32
	count uint32 // of descriptors, runs freely

	mem  []byte // the slots', each bytes, in the region lkey: head bytes, then a packet
	head int    // of a datagram, what lies before it
	each int
	mtu  int
	with []bool // by slot: the device has it
	ids  tagged
	lkey uint32
}

func (r *recvQueue) init(depth int, tag uint16) {
	r.mask = uint32(roundUp(depth) - 1)
	r.with = make([]bool, depth)
	r.ids = newTagged(depth, tag)
}

// slot is the memory of a slot; nil: there is none of the number.
func (r *recvQueue) slot(n int) []byte {
	if uint(n) >= uint(len(r.with)) {
		return nil
	}
	return r.mem[n*r.each+r.head:][:r.mtu:r.mtu]
}

// post gives slots to the device, with one doorbell. Numbers of no slot, and of slots
// that it has, are left out.
func (r *recvQueue) post(slots []int32) {
	was := r.count
	for _, n := range slots {
		if uint(n) >= uint(len(r.with)) || r.with[n] {
			continue
		}
		r.with[n] = true
		d := abi.RxDesc{
			Addr: addressOf(r.mem[int(n)*r.each:]), Length: uint16(r.head + r.mtu), LKey: r.lkey,
			ReqID: r.ids.id(uint16(n)), First: true, Last: true,
		}
		at := int(r.count&r.mask) * abi.RxDescLen
		d.Append(r.descs[at : at : at+abi.RxDescLen])
		r.count++
	}
	if r.count != was {
		mmio.Store(r.db, abi.WorkDoorbell(uint16(r.count)))
	}
}

// finish takes a slot back from the device; the results are those of sendQueue.finish.
func (r *recvQueue) finish(reqID uint16) (slot uint16, known, ok bool) {
	n, known := r.ids.number(reqID)
	if !known || int(n) >= len(r.with) || !r.with[n] {
		return 0, known, false
	}
	r.with[n] = false
	return n, true, true
}
