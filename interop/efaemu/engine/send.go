package engine

import (
	"errors"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// Retries after RNR, for devices that refuse SetRNRRetry.
const (
	forever     = 7 // the number of retries that has no end
	rnrDelay    = 100 * time.Microsecond
	maxRNRShift = 6
	maxAgain    = 8 // see behind
)

// start checks a WQE and sends the packet; RDMA goes on in nextPiece. False: the
// device has no room, and op is as it was.
func (q *QP) start(op *txOp) bool {
	if st := q.check(op); st != device.StatusOK {
		q.complete(op, st)
		return true
	}
	if op.w.Op != abi.WorkSend {
		q.sq.rdma.push(op)
		return true
	}
	op.buf = q.e.pool.packet()[:op.total]
	if !q.gather(op, 0) {
		return true
	}
	if !q.post(op) {
		q.sq.dropBuf(op, &q.e.pool)
		return false
	}
	if op.posted && q.rnr == 0 && q.e.info.CopiesAtPost {
		q.sq.dropBuf(op, &q.e.pool)
	}
	return true
}

// gather fills op.buf with the program's data, from off on. False: op has
// completed, since that memory can't be read.
func (q *QP) gather(op *txOp, off int) bool {
	w := &op.w
	if w.Inline {
		copy(op.buf, w.Data[off:])
		return true
	}
	rest := op.buf
	for i := range q.sges(w) {
		g := &w.SGE[i]
		n := min(int(g.Length), len(rest)) // of RDMA there is one SGE
		if !q.transfer(op, g, off, rest[:n], 0) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// transfer moves b from the place off of an SGE, or to it if that takes the right
// to write. False: op has completed, or everything of q has ended.
func (q *QP) transfer(op *txOp, g *abi.SGE, off int, b []byte, right device.Access) bool {
	in, va, f := q.cfg.PD.local(g.LKey, g.Addr+uint64(off), uint64(len(b)), right)
	var err error
	switch {
	case f != noFault || len(b) == 0:
	case right == 0:
		err = in.ReadAt(b, va)
	default:
		err = in.WriteAt(b, va)
	}
	if errors.Is(err, memory.ErrGone) {
		q.vanish()
		return false
	}
	if err != nil {
		f = badMemory
	}
	if f != noFault {
		q.blame(wqeRule[f], op, "%d bytes at %#x, lkey %#x", len(b), g.Addr+uint64(off), g.LKey)
		q.complete(op, device.StatusInvalidLKey)
		return false
	}
	return true
}

// post hands op.buf to the device. False: it has no room. Otherwise op is with the
// device, or has completed.
func (q *QP) post(op *txOp) bool {
	w := &op.w
	a := q.cfg.PD.ah(w.AH)
	if a == nil || a != op.to { // destroyed since, and the number perhaps another's
		q.complete(op, device.StatusInvalidAH)
		return true
	}
	ah, err := q.routes.to(q.dev, a)
	if err != nil {
		q.complete(op, device.StatusInvalidAH)
		return true
	}
	wr := &q.sq.wr
	*wr = device.SendWR{
		ID: op.id(), AH: ah, QPN: w.DestQPN, QKey: w.QKey, Kind: kindOf(w.Op),
		HasImm: w.HasImm && op.off+len(op.buf) == op.total, Payload: op.buf,
	}
	if wr.HasImm {
		wr.Imm, wr.Whole = abi.Immediate(w.Imm), uint32(op.total)
	}
	if w.Op != abi.WorkSend {
		wr.RKey, wr.Remote = uint64(w.Remote.RKey), w.Remote.Addr+uint64(op.off)
	}
	err = q.dev.PostSend(wr)
	wr.Payload = nil
	switch {
	case err == nil:
		op.posted = true
		q.sq.out++
	case errors.Is(err, device.ErrQueueFull):
		q.e.stats.Stalls++
		return false
	default:
		q.complete(op, statusOf(err))
	}
	return true
}

func kindOf(op abi.WorkOp) device.WR {
	switch op {
	case abi.WorkRead:
		return device.WRRead
	case abi.WorkWrite:
		return device.WRWrite
	default:
		return device.WRSend
	}
}

// statusOf is the status for an error of PostSend after a passed check.
func statusOf(err error) device.Status {
	switch {
	case errors.Is(err, device.ErrTooLong):
		return device.StatusLocalBadLength
	case errors.Is(err, device.ErrBadAH):
		return device.StatusInvalidAH
	case errors.Is(err, device.ErrNotSupported):
		return device.StatusUnsupportedOp
	case errors.Is(err, device.ErrUnsent): // the program sends it again
		return device.StatusRNR
	default:
		return device.StatusQPInternal
	}
}

// sent takes the device's verdict on a packet or a piece.
func (q *QP) sent(c *device.Completion) {
	op := q.sq.find(c.ID)
	if op == nil {
		return
	}
	op.posted = false
	q.sq.out--
	switch {
	case c.Status == device.StatusRNR && q.e.behind(op):
		q.again(op)
	case q.cfg.Datagram && c.Status >= device.StatusBadAddress: // what the remote side says
		q.complete(op, device.StatusOK)
	case c.Status == device.StatusRNR && (q.rnr == forever || op.tries < q.rnr):
		op.due = q.e.now.Add(rnrDelay << min(op.tries, maxRNRShift))
		if op.tries < 0xff {
			op.tries++
		}
		q.sq.waiting.push(op)
	case c.Status != device.StatusOK || op.w.Op == abi.WorkSend:
		q.complete(op, c.Status)
	default:
		q.pieceDone(op)
	}
}

// behind reports whether a packet met RNR only because the device doesn't have the
// receives yet that its destination, which is this engine's, has: the device may take
// fewer, and the engine takes them bit by bit. The device's present receives may go
// unused (a sender may have stopped that was about to use one), so it is tried a few
// times.
func (e *Engine) behind(op *txOp) bool {
	if op.to == nil || op.to.gid != e.info.GID {
		return false
	}
	for _, d := range e.qps {
		if d.number != op.w.DestQPN || d.state != rtr && d.state != rts {
			continue
		}
		r := &d.rq
		spare := r.recvs.len() - r.starved.len()
		if spare > 0 && spare <= r.inDevice && op.again < maxAgain {
			op.again++
			return true
		}
		return spare > r.inDevice || r.fetched != r.posted
	}
	return false
}

// again starts a packet, or the piece that was under way, once more.
func (q *QP) again(op *txOp) {
	q.sq.dropBuf(op, &q.e.pool)
	if op.w.Op == abi.WorkSend {
		q.sq.stalled.push(op)
	} else {
		q.sq.rdma.push(op)
	}
}

// resend posts again the packets that met RNR and have waited. It tries each once,
// so a late one doesn't hold the others up.
func (q *QP) resend() bool {
	s := &q.sq
	worked := false
	for range s.waiting.len() {
		if s.out >= s.depth {
			break
		}
		op, _ := s.waiting.pop()
		if q.e.now < op.due || !q.post(op) {
			s.waiting.push(op)
			continue
		}
		q.e.stats.Retries++
		worked = true
	}
	return worked
}
