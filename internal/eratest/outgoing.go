package eratest

import (
	"slices"

	"github.com/efactor/efactor/wire"
)

// outgoing holds the endpoint's operations with one peer that the peer may answer.
type outgoing struct {
	sends     map[uint32]*work     // by send_id: named by CTS, RECEIPT, EOR and READ_NACK
	responses map[uint32]*work     // by the send_id of READRSP: named by CTS for a read
	fetches   map[uint32]uint64    // by recv_id: bytes that ATOMRSP brings
	reads     map[uint32]readAsked // by the peer's recv_id: the read that it asked for
	byRecv    map[uint32]*work     // by the peer's recv_id: the operation that CTSDATA belongs to
}

// work is one operation.
type work struct {
	typ     wire.Type
	id      uint32
	msgID   uint32
	total   uint64
	sent    spans
	granted uint64
	nacked  bool
}

// readAsked is a peer's read: its length, and how much may be sent without CTS.
type readAsked struct{ total, window uint64 }

// asked: the peer asks to read.
func (out *outgoing) asked(v *view) {
	if !v.typ.IsRTR() {
		return
	}
	if out.reads == nil {
		out.reads = map[uint32]readAsked{}
	}
	a := readAsked{v.total, v.grant}
	if v.short {
		a.window = v.total
	}
	out.reads[v.recv] = a
}

// sent notes what the endpoint sends. Noting the same packet twice changes nothing.
func (out *outgoing) sent(v *view) {
	if out.sends == nil {
		out.sends, out.responses = map[uint32]*work{}, map[uint32]*work{}
		out.fetches, out.byRecv = map[uint32]uint64{}, map[uint32]*work{}
	}
	switch {
	case v.typ == wire.TypeFetchRTA, v.typ == wire.TypeCompareRTA:
		out.fetches[v.recv] = v.total
	case v.typ == wire.TypeREADRSP:
		out.response(v)
	case v.typ == wire.TypeCTSData:
		if w := out.byRecv[v.recv]; w != nil && w.sent.add(v.off, v.n) {
			out.progress(w, v.recv)
		}
	case readBased(v.typ):
		out.offered(v)
	case longCTS(v.typ):
		w := &work{typ: v.typ, id: v.send, total: v.total}
		if old := out.sends[v.send]; v.nack && old != nil {
			w.sent = slices.Clone(old.sent)
		}
		w.sent.add(0, v.n)
		w.granted = w.sent.size()
		out.sends[v.send] = w
	case v.typ.IsDC():
		out.sends[v.send] = &work{typ: v.typ, id: v.send}
	}
}

// offered: the peer may read. There is no EOR if nothing is left to be read (§4.5).
func (out *outgoing) offered(v *view) {
	if v.total > 0 && v.runt == v.total {
		delete(out.sends, v.send)
		return
	}
	w := out.sends[v.send]
	if w == nil || w.typ != v.typ || w.msgID != v.msgID {
		w = &work{typ: v.typ, id: v.send, msgID: v.msgID, total: v.total}
		out.sends[v.send] = w
	}
	w.sent.add(v.off, v.n)
}

func (out *outgoing) response(v *view) {
	a, ok := out.reads[v.recv]
	if !ok {
		return
	}
	if old := out.responses[v.send]; old != nil && out.byRecv[v.recv] == old {
		return // posted again, and CTSDATA may have gone out meanwhile
	}
	w := &work{typ: v.typ, id: v.send, total: a.total, granted: a.window}
	w.sent.add(0, v.n)
	out.responses[v.send], out.byRecv[v.recv] = w, w
	out.progress(w, v.recv)
}

// progress ends what was sent completely, unless a RECEIPT is to come.
func (out *outgoing) progress(w *work, recv uint32) {
	switch {
	case w.sent.size() < w.total:
		return
	case w.typ == wire.TypeREADRSP:
		delete(out.responses, w.id)
	case !w.typ.IsDC():
		delete(out.sends, w.id)
	}
	delete(out.byRecv, recv)
}

// answered judges a peer's answer to the endpoint's operations.
func (out *outgoing) answered(v *view, nackWrites bool) *Fault {
	w := out.sends[v.send]
	switch v.typ {
	case wire.TypeCTS:
		return out.granted(v)
	case wire.TypeATOMRSP:
		n, ok := out.fetches[v.recv]
		if !ok {
			return bad(RuleID, "recv_id %d waits for no atomic", v.recv)
		}
		if n != v.said {
			return bad(RuleLengths, "%d bytes for %d of memory", v.said, n)
		}
		delete(out.fetches, v.recv)
		return nil
	case wire.TypeReceipt:
		if w == nil || !w.typ.IsDC() {
			return bad(RuleID, "tx_id %d waits for no RECEIPT", v.send)
		}
	default: // EOR, READ_NACK
		if w == nil || w.nacked || !readBased(w.typ) {
			return bad(RuleID, "send_id %d is not being read", v.send)
		}
		if v.typ != wire.TypeReadNACK {
			break
		}
		if w.typ == wire.TypeLongReadRTW && !nackWrites {
			return bad(RuleNACK, "the era's writes cannot be refused")
		}
		w.nacked = true
		return nil
	}
	delete(out.sends, v.send)
	return nil
}

// granted judges a CTS: windows follow each other, and the last one ends with the
// message (§3.2). A CTS for a read is marked, since releases until 1.15 look it up
// elsewhere.
func (out *outgoing) granted(v *view) *Fault {
	w, other := out.sends[v.send], out.responses[v.send]
	if v.flag {
		w, other = other, w
	}
	switch {
	case w == nil && other != nil:
		return bad(RuleGrant, "marked as for a read: %t", v.flag)
	case w == nil:
		return bad(RuleID, "send_id %d has nothing to send", v.send)
	case !v.flag && !longCTS(w.typ):
		return bad(RuleGrant, "send_id %d is no long-CTS", v.send)
	}
	switch sent := w.sent.size(); {
	case v.grant == 0:
		return bad(RuleGrant, "a window of nothing")
	case sent < w.granted:
		return bad(RuleGrant, "%d bytes of the last window are not used", w.granted-sent)
	case v.grant > w.total-sent:
		return bad(RuleGrant, "%d bytes, but %d are left", v.grant, w.total-sent)
	default:
		w.granted = sent + v.grant
	}
	out.byRecv[v.recv] = w
	return nil
}

// forget ends the operation that the endpoint calls id.
func (out *outgoing) forget(id uint32) {
	delete(out.sends, id)
	delete(out.responses, id)
	delete(out.fetches, id)
}
