package engine

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/runtime/clock"
)

// txOp is a WQE that was taken out of the send queue and has not completed.
type txOp struct {
	index, gen uint32 // its id at the device; gen distinguishes uses
	live       bool
	posted     bool // the device has it

	raw [abi.WideWQELen]byte
	w   abi.WQE  // of raw
	to  *ahEntry // what its handle meant when it was checked

	// buf holds the bytes to send now: a packet, or a piece of RDMA.
	buf   []byte
	total int // bytes
	off   int // of RDMA that are done

	tries uint8 // after RNR
	again uint8 // after RNR that is the engine's fault
	due   clock.Time
}

func (op *txOp) id() uint64 { return uint64(op.gen)<<32 | uint64(op.index) }

// take returns a free op. Invariant: there are as many as WQEs were taken and have
// not completed.
func (s *sendQueue) take() *txOp {
	if n := len(s.free); n > 0 {
		op := s.free[n-1]
		s.free = s.free[:n-1]
		op.live = true
		return op
	}
	op := &txOp{index: uint32(len(s.ops)), live: true}
	s.ops = append(s.ops, op)
	return op
}

// find returns the op that the device means; nil: there is none.
func (s *sendQueue) find(id uint64) *txOp {
	i := uint32(id)
	if uint64(i) >= uint64(len(s.ops)) {
		return nil
	}
	if op := s.ops[i]; op.posted && op.id() == id {
		return op
	}
	return nil
}

// release makes op free again, with its buffer.
func (s *sendQueue) release(op *txOp, p *pool) {
	s.dropBuf(op, p)
	if op.posted {
		s.out--
	}
	op.live, op.posted, op.w.Data, op.to = false, false, nil, nil
	op.off, op.total, op.tries, op.again = 0, 0, 0, 0
	op.gen++
	s.free = append(s.free, op)
}

func (s *sendQueue) dropBuf(op *txOp, p *pool) {
	if op.buf == nil {
		return
	}
	if p.isLarge(len(op.buf)) {
		s.larges--
	}
	p.put(op.buf)
	op.buf = nil
}

// complete ends op with a completion.
func (q *QP) complete(op *txOp, st device.Status) {
	kind := op.w.Op
	if st == device.StatusOK {
		n := uint64(op.total)
		q.e.stats.SentBytes += n
		switch kind {
		case abi.WorkRead:
			q.e.stats.ReadBytes += n
		case abi.WorkWrite:
			q.e.stats.WrittenBytes += n
		default:
		}
	}
	id := op.w.ReqID
	q.sq.release(op, &q.e.pool)
	q.sq.done++
	q.report(id, kind, st)
}

// report writes a completion of the send queue.
func (q *QP) report(id uint64, kind abi.WorkOp, st device.Status) {
	q.e.stats.Sent[kindIndex(kind)][statusIndex(st)]++
	q.cfg.SendCQ.put(q.cfg.SendSub, &abi.CQE{
		ReqID: id & 0xffff, Status: uint8(st), Queue: abi.SendQueue, Op: kind, QPN: q.number,
	})
}
