package eratest

import (
	"slices"

	"github.com/efactor/efactor/wire"
)

// incoming is the data of one peer for which the endpoint grants windows: long-CTS
// messages and writes of the peer, and the endpoint's own reads (§3.2, §3.3).
type incoming struct {
	bySend map[uint32]*transfer // by the peer's id of its operation
	byRecv map[uint32]*transfer // the endpoint's
}

// transfer is one of them.
type transfer struct {
	total    uint64
	got      spans
	window   uint64 // granted, and not used
	send     uint32
	read     bool // the endpoint asked for it,
	answered bool // and READRSP has come
}

// requested: the peer wants to send by long-CTS.
func (in *incoming) requested(v *view) {
	if longCTS(v.typ) && !v.nack {
		in.expect(v, nil).got.add(0, v.n)
	}
}

// replaced: the rest of a message that was refused comes by long-CTS (§4.7).
func (in *incoming) replaced(v *view, m *message) { in.expect(v, slices.Clone(m.got)) }

func (in *incoming) expect(v *view, got spans) *transfer {
	if in.bySend == nil {
		in.bySend = map[uint32]*transfer{}
	}
	t := &transfer{total: v.total, send: v.send, got: got}
	in.bySend[v.send] = t
	return t
}

// sent: the endpoint asks for data, grants more of it, or says that it has read.
func (in *incoming) sent(v *view, o *order) {
	if in.byRecv == nil {
		in.byRecv = map[uint32]*transfer{}
	}
	switch v.typ {
	case wire.TypeShortRTR, wire.TypeLongCTSRTR:
		t := &transfer{total: v.total, window: v.total, read: true}
		if !v.short {
			t.window = v.grant
		}
		in.byRecv[v.recv] = t
	case wire.TypeCTS:
		t := in.bySend[v.send]
		if v.flag {
			t = in.byRecv[v.recv]
		}
		if t != nil {
			t.window = v.grant
			in.byRecv[v.recv] = t
		}
	case wire.TypeEOR, wire.TypeReadNACK:
		o.answered(v.send, v.typ == wire.TypeReadNACK)
	default:
	}
}

// data judges CTSDATA and READRSP. greeted says that the endpoint's HANDSHAKE was
// sent.
func (in *incoming) data(v *view, greeted bool) *Fault {
	t := in.byRecv[v.recv]
	first := v.typ == wire.TypeREADRSP
	switch {
	case !first && !greeted:
		return bad(RuleEarlyData, "the sender cannot know whether a connid is wanted")
	case t == nil, first && (!t.read || t.answered):
		return bad(RuleID, "recv_id %d is not waiting for it", v.recv)
	case v.n > t.window:
		return bad(RuleWindow, "%d bytes, but %d are left of the window", v.n, t.window)
	case v.off > t.total, v.n > t.total-v.off:
		return bad(RuleSegment, "bytes %d to %d of %d", v.off, v.off+v.n, t.total)
	case !t.got.add(v.off, v.n):
		return bad(RuleSegment, "bytes %d to %d were there", v.off, v.off+v.n)
	}
	t.window -= v.n
	t.answered = t.answered || first
	if t.got.size() == t.total && (!t.read || t.answered) {
		in.forget(v.recv)
	}
	return nil
}

// forget ends the operation that the endpoint calls recv.
func (in *incoming) forget(recv uint32) {
	t := in.byRecv[recv]
	if t == nil {
		return
	}
	delete(in.byRecv, recv)
	if !t.read && in.bySend[t.send] == t {
		delete(in.bySend, t.send)
	}
}
