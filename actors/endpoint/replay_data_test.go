package endpoint_test

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// before is the first element of an atomic's target, and of its comparand.
const before = 1000

// data is that of a message, write or read.
func (o *operation) data() []byte { return script.Pattern(o.n, o.first.Seed) }

// elements are n bytes of elements that count up from first.
func elements(dt wire.Datatype, n, first int) []byte {
	var b []byte
	for i := range n / dt.Size() {
		b = appendElement(b, dt, int64(first+i))
	}
	return b
}

func appendElement(b []byte, dt wire.Datatype, v int64) []byte {
	u := uint64(v)
	switch dt {
	case wire.DatatypeFloat:
		u = uint64(math.Float32bits(float32(v)))
	case wire.DatatypeDouble:
		u = math.Float64bits(float64(v))
	}
	return append(b, binary.LittleEndian.AppendUint64(nil, u)[:dt.Size()]...)
}

// after is the target of an atomic when it was carried out. The captured ones are
// on whole numbers.
func (o *operation) after(t require.TestingT) []byte {
	var b []byte
	for i := range int64(o.n / o.dt.Size()) {
		was, operand := before+i, int64(o.first.Seed)+i
		now := was
		switch o.op {
		case wire.OpSum:
			now += operand
		case wire.OpMin:
			now = min(was, operand)
		case wire.OpMax:
			now = max(was, operand)
		case wire.OpBOr:
			now |= operand
		case wire.OpBXor:
			now ^= operand
		case wire.OpWrite, wire.OpCSwap: // the comparand is what was there
			now = operand
		case wire.OpMSwap:
			now = operand & was // bits that the comparand lacks would stay: it has all
		case wire.OpRead:
		default:
			require.Fail(t, "atomic without a reference", o.op.String())
		}
		b = appendElement(b, o.dt, now)
	}
	return b
}

// payload is the data of a packet of the operation's that has n bytes of it.
func (o *operation) payload(pkt wire.Packet, n int) []byte {
	b := make([]byte, n)
	off := 0
	switch h := pkt.(type) {
	case *wire.RTA:
		operand := elements(o.dt, o.n, o.first.Seed)
		if h.Kind == wire.RTACompare {
			operand = append(operand, elements(o.dt, o.n, before)...)
		}
		return operand
	case *wire.ATOMRSP:
		return elements(o.dt, o.n, before)
	case *wire.MediumRTM:
		off = int(h.SegOffset)
	case *wire.RuntReadRTM:
		off = int(h.SegOffset)
	case *wire.CTSData:
		off = int(h.SegOffset)
	}
	if o.name != "" && n > 0 {
		script.Fill(b, off, o.first.Seed)
	}
	return b
}

// check compares the outcome and the data of the operation in progress.
func (r *replay) check() {
	o := r.now
	if o.name == "" {
		return
	}
	mine := o.actor == r.side
	if o.did != nil {
		r.checkOutcome(o)
	}
	switch {
	case mine && o.name == "write" && r.byRDMA():
		r.same(o.data(), o.remote, o.first.Op)
	case mine:
	case o.name == "write":
		r.same(o.data(), o.target[:o.n], o.first.Op)
		if o.first.CQData != nil {
			r.written++
			require.Contains(r.t, r.rig.Log, writtenLine(r.other.Name, o.n, *o.first.CQData))
		}
	case o.name == "read":
		r.same(o.data(), o.target, o.first.Op)
	case o.target != nil:
		r.same(o.after(r.t), o.target, o.first.Op)
	}
	require.Equal(r.t, r.written, r.countWritten(), o.first.Op)
}

func (r *replay) checkOutcome(o *operation) {
	i := slices.IndexFunc(r.rig.Outcomes, func(x script.Outcome) bool { return x.Op == o.did })
	require.GreaterOrEqual(r.t, i, 0, "%s has no outcome", o.first.Op)
	res, req := &r.rig.Outcomes[i].Res, &o.did.Req
	if o.flags["fail"] {
		require.Error(r.t, res.Err, o.first.Op)
		return
	}
	require.NoError(r.t, res.Err, o.first.Op)
	require.Equal(r.t, o.n, res.N, o.first.Op)
	switch req.Kind {
	case ope.KindRecv:
		r.same(o.data(), req.Buf, o.first.Op)
		require.Equal(r.t, o.first.CQData != nil, res.HasData)
		if o.first.CQData != nil {
			require.Equal(r.t, r.cqData(o), res.Data)
		}
		if o.first.Tag != nil {
			require.Equal(r.t, *o.first.Tag, res.Tag)
		}
	case ope.KindRead:
		r.same(o.data(), req.Buf, o.first.Op)
	case ope.KindAtomic:
		if req.Form != ope.AtomicWrite {
			r.same(r.fetched(o), req.More.Result, o.first.Op)
		}
	}
}

// cqData returns the CQ data of an operation as it travels: 1.17 cuts it in tagged sends.
func (r *replay) cqData(o *operation) uint64 {
	if talk, _ := era.Of(r.s.Release(o.actor)); talk.CQData32 && o.first.Tag != nil {
		return uint64(uint32(*o.first.CQData))
	}
	return *o.first.CQData
}
