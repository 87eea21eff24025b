package engine

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// nextPiece posts a piece of the RDMA request whose turn it is. A request has one
// piece under way, and waits behind the others for its next. False: none can be
// posted.
func (q *QP) nextPiece() bool {
	s := &q.sq
	if s.rdma.len() == 0 {
		return false
	}
	op := s.rdma.front()
	n := min(op.total-op.off, q.e.info.MaxRDMA, maxPiece)
	if q.e.pool.isLarge(n) {
		if s.larges == maxLarge {
			return false
		}
		s.larges++
	}
	op.buf = q.e.pool.piece(n)
	_, _ = s.rdma.pop()
	if op.w.Op == abi.WorkWrite && !q.gather(op, op.off) {
		return true
	}
	if !q.post(op) {
		s.dropBuf(op, &q.e.pool)
		s.rdma.unpop(op)
		return false
	}
	q.e.stats.Pieces++
	return true
}

// pieceDone goes on after a piece that ended well.
func (q *QP) pieceDone(op *txOp) {
	n := len(op.buf)
	if op.w.Op == abi.WorkRead && !q.transfer(op, &op.w.SGE[0], op.off, op.buf, device.LocalWrite) {
		return
	}
	q.sq.dropBuf(op, &q.e.pool)
	op.off += n
	op.tries = 0
	if op.off == op.total {
		q.complete(op, device.StatusOK)
		return
	}
	q.sq.rdma.push(op)
}
