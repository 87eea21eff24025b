package engine

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// check validates a WQE as a strict device does. A WQE that passes can be sent.
func (q *QP) check(op *txOp) device.Status {
	w := &op.w
	if w.Reserved != 0 || w.ReqID>>16 != 0 {
		q.blame(RuleWQEReserved, op, "not 0: %s, id %#x", w.Reserved, w.ReqID)
	}
	if !w.CompReq {
		q.blame(RuleWQEFlags, op, "no completion asked for")
	}
	if !w.Meta || !w.First || !w.Last {
		q.blame(RuleWQEFlags, op, "meta %t, first %t, last %t", w.Meta, w.First, w.Last)
		return device.StatusQPInternal
	}
	if !q.supports(w) {
		q.blame(RuleWQEOp, op, "op %d, inline %t, immediate %t, in %d bytes", w.Op, w.Inline, w.HasImm, q.cfg.WQESize)
		return device.StatusUnsupportedOp
	}
	if st := q.checkLength(op); st != device.StatusOK {
		return st
	}
	if op.to = q.cfg.PD.ah(w.AH); op.to == nil {
		q.blame(RuleWQEAH, op, "handle %d", w.AH)
		return device.StatusInvalidAH
	}
	right := device.Access(0)
	if w.Op == abi.WorkRead {
		right = device.LocalWrite
	}
	for i := range q.sges(w) {
		g := &w.SGE[i]
		if _, _, f := q.cfg.PD.local(g.LKey, g.Addr, uint64(g.Length), right); f != noFault {
			q.blame(wqeRule[f], op, "%d bytes at %#x, lkey %#x", g.Length, g.Addr, g.LKey)
			return device.StatusInvalidLKey
		}
	}
	return device.StatusOK
}

// supports reports whether there is such an operation in such a form.
func (q *QP) supports(w *abi.WQE) bool {
	p, info := &q.e.cfg.Profile, &q.e.info
	switch {
	case w.Op == abi.WorkSend:
		return true
	case q.cfg.Datagram:
		return false
	case w.Op == abi.WorkRead:
		return p.RDMARead && info.RDMARead && !info.LocalKeys && !w.Inline && !w.HasImm
	case w.Op == abi.WorkWrite:
		return p.RDMAWrite && info.RDMAWrite && !info.LocalKeys && (!w.Inline || q.cfg.WQESize == abi.WideWQELen)
	}
	return false
}

// sges is how many SGEs there are.
func (q *QP) sges(w *abi.WQE) int {
	if w.Inline {
		return 0
	}
	return int(w.Length)
}

// checkLength computes and checks the length of the request.
func (q *QP) checkLength(op *txOp) device.Status {
	w, p := &op.w, &q.e.cfg.Profile
	n := uint64(w.Length)
	if w.Inline {
		most := min(int(p.Inline), abi.MaxInline)
		if q.cfg.WQESize == abi.WideWQELen {
			most = min(int(max(p.Inline, p.InlineEx)), abi.MaxInlineWide)
		}
		if int(w.Length) > most {
			q.blame(RuleWQEInline, op, "%d bytes, at most %d", w.Length, most)
			return device.StatusLocalBadLength
		}
	} else {
		most := min(int(p.MaxSGESQ), abi.MaxSendSGE)
		if w.Op != abi.WorkSend {
			most = 1
		}
		if int(w.Length) > most {
			q.blame(RuleWQESGE, op, "%d, at most %d", w.Length, most)
			return device.StatusQPInternal
		}
		n = 0
		for i := range int(w.Length) {
			n += uint64(w.SGE[i].Length)
		}
	}
	most := uint64(q.e.info.MTU)
	if w.Op != abi.WorkSend {
		most = uint64(p.MaxRDMA)
	}
	if n > most || w.Op != abi.WorkSend && n != uint64(w.Remote.Length) {
		q.blame(RuleWQELength, op, "%d bytes, at most %d; remote side: %d", n, most, w.Remote.Length)
		return device.StatusLocalBadLength
	}
	op.total = int(n)
	return device.StatusOK
}

// blame is find for a WQE.
func (q *QP) blame(rule string, op *txOp, format string, args ...any) {
	args = append([]any{op.w.ReqID & 0xffff, op.w.DestQPN}, args...)
	q.e.find(rule, q.where, "request %#x to qp %d: "+format, args...)
}
