package engine

import (
	"math/bits"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// Bounds of one queue pair's work in a round.
const (
	fetchBatch = 64
	pollBatch  = 64
	pieces     = 2 // of RDMA
)

// sendQueue is the engine's side of a send queue. Counts are of WQEs and run freely.
type sendQueue struct {
	entries int
	depth   int    // of the device's send queue
	posted  uint32 // by the doorbell
	fetched uint32 // copied from the ring
	done    uint32 // completed
	word    uint32 // of the doorbell, as last seen
	early   bool   // it rang too early

	lap      bool // the phase of the first lap
	lapKnown bool

	ops  []*txOp
	free []*txOp
	out  int // ops that the device has

	larges int // large buffers that ops have

	hold    hold
	stalled fifo[*txOp] // the device had no room
	rdma    fifo[*txOp] // with a piece to go
	waiting fifo[*txOp] // for another try after RNR
	wr      device.SendWR
}

func (s *sendQueue) init(e *Engine, c *QPConfig) {
	*s = sendQueue{
		entries: c.SQEntries, depth: min(c.SQEntries, e.info.MaxSQ), lapKnown: true,
		hold: newHold(e.cfg.Shuffle, e.opened),
	}
}

// drop forgets everything.
func (s *sendQueue) drop(e *Engine) {
	for _, op := range s.ops {
		if op.live {
			s.release(op, &e.pool)
		}
	}
	s.hold, s.stalled, s.rdma, s.waiting = hold{}, fifo[*txOp]{}, fifo[*txOp]{}, fifo[*txOp]{}
}

// lookSQ reads the send doorbell. It fails the queue pair if what it says can't be.
func (q *QP) lookSQ() {
	s := &q.sq
	w := load(q.cfg.SQDoorbell)
	if w == s.word {
		return
	}
	if q.state < rts {
		if !s.early {
			s.early = true
			q.e.find(RuleSQState, q.where, "%#x", w)
		}
		return
	}
	s.word = w
	pc, reserved := abi.ParseWorkDoorbell(w)
	if reserved {
		q.e.find(RuleSQDoorbell, q.where, "%#x", w)
	}
	n := uint32(pc - uint16(s.posted))
	s.posted += n
	if s.posted-s.done > uint32(s.entries) {
		q.e.find(RuleSQOverrun, q.where, "%d posted, %d of them completed, %d entries", s.posted, s.done, s.entries)
	}
	if s.posted-s.fetched > uint32(s.entries) {
		s.fetched = s.posted // their contents are unknown
		q.fail()
		s.done = s.posted
		return
	}
	if most := q.maxBatch(); q.e.cfg.ExactDoorbells && n > uint32(most) {
		q.e.find(RuleSQBatch, q.where, "%d, at most %d", n, most)
	}
}

// maxBatch is how many WQEs there may be between two doorbells.
func (q *QP) maxBatch() int {
	most := q.sq.entries
	if q.e.cfg.Profile.MinSQ != 0 {
		most--
	}
	if b := int(q.e.cfg.Profile.MaxTxBatch); b > 0 {
		most = min(most, b*abi.WQELen/q.cfg.WQESize)
	}
	return most
}

// read copies the next WQE from the ring, once: the program could change it.
func (q *QP) read(op *txOp) {
	s := &q.sq
	at := int(s.fetched) & (s.entries - 1) * q.cfg.WQESize
	raw := op.raw[:q.cfg.WQESize]
	copy(raw, q.cfg.SQ[at:at+q.cfg.WQESize])
	_ = op.w.Parse(raw) // never too short
	lap := s.fetched>>bits.TrailingZeros(uint(s.entries))&1 == 1
	s.fetched++
	if !s.lapKnown {
		s.lap, s.lapKnown = op.w.Phase != lap, true
	}
	if op.w.Phase != (lap != s.lap) {
		q.e.find(RuleWQEPhase, q.where, "WQE %d, request %#x", s.fetched-1, op.w.ReqID)
	}
}

// fetch takes WQEs out of the ring.
func (q *QP) fetch() bool {
	s := &q.sq
	n := 0
	for ; n < fetchBatch && s.fetched != s.posted && s.fetched-s.done < uint32(s.entries); n++ {
		op := s.take()
		q.read(op)
		s.hold.push(op, q.e.now)
	}
	return n > 0
}

// stepSend moves WQEs towards the device.
func (q *QP) stepSend() bool {
	s := &q.sq
	s.hold.round()
	worked := q.fetch()
	worked = q.resend() || worked
	for s.out < s.depth && q.state == rts {
		op, ok := s.stalled.pop()
		if !ok {
			op, ok = s.hold.pop(q.e.now)
		}
		if !ok {
			break
		}
		if !q.start(op) {
			s.stalled.unpop(op)
			break
		}
		worked = true
	}
	for range pieces {
		if q.state != rts || s.out >= s.depth || !q.nextPiece() {
			break
		}
		worked = true
	}
	if worked && q.state == rts {
		q.dev.Doorbell()
	}
	return worked
}

// flush completes everything that is posted or under way.
func (q *QP) flush() {
	s := &q.sq
	for _, op := range s.ops {
		if op.live {
			q.complete(op, device.StatusFlushed)
		}
	}
	s.hold, s.stalled, s.rdma, s.waiting = hold{}, fifo[*txOp]{}, fifo[*txOp]{}, fifo[*txOp]{}
	q.flushPosted()
}

// flushPosted completes later WQEs.
func (q *QP) flushPosted() bool {
	s := &q.sq
	worked := s.fetched != s.posted
	for s.fetched != s.posted {
		op := s.take()
		q.read(op)
		q.complete(op, device.StatusFlushed)
	}
	return q.flushReceives() || worked
}
