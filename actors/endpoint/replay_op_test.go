package endpoint_test

import (
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// operation is an operation of one of the two applications, and our part in it.
type operation struct {
	first golden.Packet
	name  string // "" before the first one
	actor string // A or B
	n     int    // bytes; of an atomic those of the target
	dt    wire.Datatype
	op    wire.AtomicOp
	flags map[string]bool

	late   func()     // posts its receive, if that is to be late (unexp)
	did    *script.Op // what we submitted, nil if it is the other side's alone
	target []byte     // the memory of ours that it concerns
	remote []byte     // the memory of theirs that our device wrote or read
}

// begin submits the operation whose first packet is p.
func (r *replay) begin(p golden.Packet) {
	op := &operation{first: p, flags: map[string]bool{}}
	r.now = op
	if p.Op == "" {
		return
	}
	op.actor = "A"
	text, passive := strings.CutPrefix(p.Op, "B:")
	if passive {
		op.actor = "B"
	}
	name, rest, _ := strings.Cut(text, ":")
	words := strings.Split(rest, ",")
	for _, w := range words[1:] {
		op.flags[w] = true
	}
	var err error
	op.n, err = strconv.Atoi(words[0])
	require.NoError(r.t, err, p.Op)
	require.Contains(r.t, []string{"send", "tsend", "write", "read", "atomic", "fetch", "compare"}, name, p.Op)
	if op.name = name; p.Datatype != nil {
		op.dt, op.op = wire.Datatype(*p.Datatype), wire.AtomicOp(*p.AtomicOp)
		op.n *= op.dt.Size()
	}
	if op.actor != r.side {
		r.suffer(op)
	} else {
		r.act(op)
	}
}

// act submits an operation of our side.
func (r *replay) act(op *operation) {
	p := &op.first
	req := ope.Request{Peer: r.other.Handle, Buf: op.data()}
	if p.RemoteAddr != nil {
		req.Addr, req.Key = *p.RemoteAddr, *p.RemoteKey
	}
	switch op.name {
	case "send", "tsend":
		req.Kind = ope.KindSend
	case "write":
		req.Kind = ope.KindWrite
		op.remote = make([]byte, op.n)
	case "read":
		req.Kind, req.Buf = ope.KindRead, make([]byte, op.n)
		op.remote = op.data()
	default:
		req.Kind, req.Op, req.Type = ope.KindAtomic, uint8(op.op), uint8(op.dt)
		req.Buf = elements(op.dt, op.n, p.Seed)
		req.Form = map[string]atomics.Form{
			"atomic": ope.AtomicWrite, "fetch": ope.AtomicFetch, "compare": ope.AtomicCompare,
		}[op.name]
		req.More = &ope.More{}
		if req.Form != ope.AtomicWrite {
			req.More.Result = make([]byte, op.n)
		}
		if req.Form == ope.AtomicCompare {
			req.More.Compare = elements(op.dt, op.n, before)
		}
	}
	if op.remote != nil && p.RemoteKey != nil {
		r.reachable(*p.RemoteAddr, *p.RemoteKey, op.remote)
	}
	if p.Tag != nil {
		req.Flags |= ope.Tagged
		req.Tag = *p.Tag
	}
	if p.CQData != nil {
		req.Flags |= ope.HasData
		req.Data = *p.CQData
	}
	if op.flags["inject"] {
		req.Flags |= ope.Inject
	}
	if op.flags["dc"] {
		req.Flags |= ope.Deliver
	}
	r.register(req.Buf, op)
	op.cut(&req)
	r.submit(op, req)
}

// cut has a request name as many pieces as the capture's did.
func (o *operation) cut(req *ope.Request) {
	if req.Kind == ope.KindAtomic {
		return
	}
	if n := o.n / 2; o.flags["iov2"] && n > 0 {
		l := req.TakeLists()
		l.AddLocal(req.Buf[:n])
		l.AddLocal(req.Buf[n:])
		req.Buf, req.Flags = nil, req.Flags|ope.Pieced
	}
	if n := uint64(o.n) / 3; o.flags["riov2"] && n > 0 {
		l := req.TakeLists()
		l.Remote = append(l.Remote, wire.RMAIOV{Addr: req.Addr, Len: n, Key: req.Key},
			wire.RMAIOV{Addr: req.Addr + n, Len: uint64(o.n) - n, Key: req.Key})
	}
}

// suffer prepares our side for an operation of the other one: a receive, or memory.
func (r *replay) suffer(op *operation) {
	p := &op.first
	switch op.name {
	case "send", "tsend":
		req := ope.Request{Kind: ope.KindRecv, Peer: script.AnySource, Buf: make([]byte, op.n)}
		if p.Tag != nil {
			req.Flags, req.Tag = ope.Tagged, *p.Tag
		}
		r.register(req.Buf, op)
		op.late = func() { r.submit(op, req) }
		if !op.flags["unexp"] {
			r.post()
		}
		return
	case "write":
		op.target = make([]byte, op.n)
	case "read":
		op.target = op.data()
	default:
		op.target = elements(op.dt, op.n, before)
	}
	if op.n == 0 { // somewhere in a region
		op.target = make([]byte, 1)
	}
	r.registerAt(op.target, *p.RemoteAddr, *p.RemoteKey)
}

func (r *replay) submit(op *operation, req ope.Request) {
	op.did = r.rig.Submit(req, op.first.Seed)
	r.all = append(r.all, op)
}

// post posts the receive that the operation in progress waits for, if any.
func (r *replay) post() {
	if r.now != nil && r.now.late != nil {
		r.now.late()
		r.now.late = nil
		r.rig.Run()
	}
}

// leave submits a send that was left outstanding before the first operation (option
// -p), of which only the packets are known. Its data is zero.
func (r *replay) leave(p golden.Packet) {
	if p.Type == "HANDSHAKE" {
		return
	}
	for _, q := range r.s.Packets[p.Seq:] {
		if q.Op != "" {
			return
		}
		if q.Type == "HANDSHAKE" || q.Type == "EAGER_RTW" { // it is waited for
			continue
		}
		req := ope.Request{Kind: ope.KindSend, Flags: ope.Tagged, Peer: r.other.Handle}
		x := r.decode(q)
		id, length := uint32(0), uint64(x.len-x.n)
		switch h := x.pkt.(type) {
		case *wire.EagerRTM:
			id, req.Tag = h.MsgID, h.Tag
		case *wire.MediumRTM:
			id, req.Tag, length = h.MsgID, h.Tag, h.MsgLength
		case *wire.LongCTSRTM:
			id, req.Tag, length = h.MsgID, h.Tag, h.MsgLength
		case *wire.LongReadRTM:
			id, req.Tag, length = h.MsgID, h.Tag, h.MsgLength
		case *wire.RuntReadRTM:
			id, req.Tag, length = h.MsgID, h.Tag, h.MsgLength
		default:
			return
		}
		if r.left[id] {
			return
		}
		r.left[id] = true
		req.Buf = r.outstanding(int(length))
		r.rig.Submit(req, 0)
		r.rig.Run()
		return
	}
}
