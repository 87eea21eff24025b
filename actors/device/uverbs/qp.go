//go:build linux

package uverbs

import (
	"errors"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// QP is a queue pair with its completion queue; it implements [device.QP].
type QP struct {
	device.QPBase
	dev    *Device
	res    *resources
	number uint16
	mtu    int

	datagram bool // UD

	sq    sendQueue
	rq    recvQueue
	cq    *completionQueue
	peers peers
	fds   []int

	armed  bool   // since the last Poll
	empty  uint16 // polls that found nothing, modulo
	failed bool   // OpFatal is to be told, or was
	told   bool   // OpFatal was told
	status device.Status
	closed bool

	stale uint64 // completions of queue pairs that are gone
}

var _ device.QP = (*QP)(nil)

// QPN implements device.QP.
func (q *QP) QPN() uint16 { return q.number }

// CreateAH implements device.QP.
func (q *QP) CreateAH(gid device.GID) (device.AH, error) {
	if q.closed {
		return device.UnknownAH, device.ErrClosed
	}
	return q.peers.create(gid)
}

// DestroyAH implements device.QP.
func (q *QP) DestroyAH(ah device.AH) error {
	if q.closed {
		return device.ErrClosed
	}
	return q.peers.destroy(ah)
}

// PostSend implements device.QP.
func (q *QP) PostSend(wr *device.SendWR) error {
	if q.closed || q.failed {
		return device.ErrClosed
	}
	if !q.peers.knows(wr.AH) {
		return device.ErrBadAH
	}
	if wr.Kind != device.WRSend {
		return q.postRDMA(wr)
	}
	size := wr.Len()
	switch {
	case size > q.mtu:
		return device.ErrTooLong
	case wr.Pieces() > q.dev.info.MaxPieces:
		return device.ErrNotSupported
	}
	n, ok := q.sq.begin(wr)
	if !ok {
		return device.ErrQueueFull
	}
	q.sq.send(n, wr, size)
	q.sq.stageWork()
	return nil
}

func (q *QP) postRDMA(wr *device.SendWR) error {
	info, op := &q.dev.info, abi.WorkRead
	switch {
	case q.datagram:
		return device.ErrNotSupported
	case wr.Kind == device.WRRead && info.RDMARead && !wr.HasImm:
	case wr.Kind == device.WRWrite && info.RDMAWrite:
		op = abi.WorkWrite
	default:
		return device.ErrNotSupported
	}
	switch {
	case len(wr.Header) > 0 || wr.Pieces() > info.MaxRDMAPieces:
		return device.ErrNotSupported
	case wr.Len() > info.MaxRDMA:
		return device.ErrTooLong
	}
	n, ok := q.sq.begin(wr)
	if !ok {
		return device.ErrQueueFull
	}
	if wr.RKey>>32 != 0 { // no card's: with its lower half alone it might be another region's
		q.sq.refused = append(q.sq.refused, n)
		return nil
	}
	q.sq.rdma(op, wr)
	q.sq.stageWork()
	return nil
}

// RecvSlots implements device.QP.
func (q *QP) RecvSlots() int { return len(q.rq.with) }

// RecvBytes implements device.QP.
func (q *QP) RecvBytes(slot int) []byte { return q.rq.slot(slot) }

// PostRecv implements device.QP.
func (q *QP) PostRecv(slots []int32) {
	if !q.closed && !q.failed {
		q.rq.post(slots)
	}
}

// Doorbell implements device.QP.
func (q *QP) Doorbell() {
	if !q.closed && !q.failed {
		q.sq.flush()
	}
}

// Close implements device.QP.
func (q *QP) Close() error {
	if q.closed {
		return device.ErrClosed
	}
	q.closed = true
	q.lookAsync()
	q.sq.llq, q.sq.copies, q.rq.descs, q.rq.mem, q.cq, q.fds = nil, nil, nil, nil, nil, nil
	q.rq.with = nil
	err := errors.Join(q.res.close(), q.peers.close())
	q.dev.users.Leave()
	return err
}
