package endpoint_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/internal/wiretext"
	"github.com/efactor/efactor/wire"
)

// packet is a captured one, decoded, with all its data: the capture has at most 448
// bytes. Encoded again its padding is zero.
type packet struct {
	pkt     wire.Packet
	n, len  int // of the headers, of all
	payload []byte
}

func (x *packet) bytes() []byte { return append(x.pkt.Append(nil), x.payload...) }

func (r *replay) decode(p golden.Packet) *packet {
	pkt, n, err := wire.Decode(p.Hex)
	require.NoError(r.t, err)
	x := &packet{pkt: pkt, n: n, len: p.Len}
	x.payload = r.now.payload(pkt, p.Len-n)
	if r.wrongAnswer(pkt) {
		x.payload = p.Hex[n:]
		return x
	}
	require.Len(r.t, x.payload, p.Len-n, "packet %d: length of the data", p.Seq)
	r.same(x.payload[:len(p.Hex)-n], p.Hex[n:], fmt.Sprintf("packet %d: data is not what was sent", p.Seq))
	return x
}

// wrongAnswer reports whether a packet is the one that libfabric has wrong since 1.18: the
// answer to a compare atomic over two pieces of memory.
func (r *replay) wrongAnswer(pkt wire.Packet) bool {
	o := r.now
	if pkt.Type() != wire.TypeATOMRSP || o.name != "compare" || !o.flags["riov2"] {
		return false
	}
	answers := "A"
	if o.actor == answers {
		answers = "B"
	}
	talk, _ := era.Of(r.s.Release(answers))
	return talk.OneCompareIOV
}

// fetched returns the data that a fetch or compare of ours brings back.
func (r *replay) fetched(o *operation) []byte {
	for _, p := range r.s.Packets[o.first.Seq:] {
		if p.Type == "ATOMRSP" && p.Op == o.first.Op {
			return r.decode(p).payload
		}
	}
	return nil
}

// matchPacket compares a packet of ours with the captured one.
func (r *replay) matchPacket(got *script.Sent, p golden.Packet) {
	want := r.decode(p)
	where := fmt.Sprintf("packet %d, %s\ngot  %s\nwant %s", p.Seq, p.Type, wiretext.Summary(got.Bytes), wiretext.Summary(want.bytes()))
	r.addressed(got, where)
	require.Equal(r.t, device.WRSend, got.Kind, where)
	require.Equal(r.t, p.DstQKey, got.QKey, where)
	mine, _, err := wire.Decode(got.Bytes)
	require.NoError(r.t, err, where)
	require.Equal(r.t, want.pkt.Type(), mine.Type(), where)
	r.learn(want.pkt, mine, where)
	r.unite(want.pkt)
	if h, ok := want.pkt.(*wire.Handshake); ok && h.HasUserRecvQP {
		r.result.note("HANDSHAKE without the user receive queue pair, since ours has none")
		h.HasUserRecvQP = false
		h.Features.Clear(wire.FeatureUserRecvQP)
	}
	if h, ok := want.pkt.(*wire.PeerError); ok && h.Emitter == wire.EmitterTX {
		h.ProvErrno = uint32(errno.ProvPeerAborted) // for people: libfabric has why it gave up
	}
	if r.wrongAnswer(want.pkt) {
		r.result.note("data of ATOMRSP as it should be, not as this release has it")
		want.payload = r.now.payload(want.pkt, len(want.payload))
	}
	r.same(want.bytes(), got.Bytes, where)
}

func (r *replay) addressed(got *script.Sent, where string) {
	require.Equal(r.t, device.GID(r.other.Addr.GID()), got.GID, where)
	if !got.NoHeader {
		require.Equal(r.t, r.other.Addr.QPN(), got.QPN, where)
	}
}

// matchRDMA compares an RDMA request of ours with the captured one.
func (r *replay) matchRDMA(got *script.Sent, p golden.Packet) {
	where := fmt.Sprintf("packet %d, %s of %d bytes", p.Seq, p.Type, p.Len)
	r.addressed(got, where)
	kind := device.WRRead
	if p.Type == golden.RDMAWrite {
		kind = device.WRWrite
		r.same(r.now.data(), got.Bytes, where)
	}
	require.Equal(r.t, kind, got.Kind, where)
	require.Equal(r.t, p.WRAddr, got.Remote, where)
	require.Equal(r.t, p.WRRKey, got.RKey, where)
	require.Equal(r.t, p.Len, got.Len, where)
	require.Equal(r.t, p.Imm != nil, got.HasImm, where)
	if p.Imm != nil {
		require.Equal(r.t, *p.Imm, got.Imm, where)
	}
}

// matchHeaderless compares bare data of ours, to a user receive queue pair.
func (r *replay) matchHeaderless(got *script.Sent, p golden.Packet) {
	where := fmt.Sprintf("packet %d, %s of %d bytes", p.Seq, p.Type, p.Len)
	r.addressed(got, where)
	require.True(r.t, got.NoHeader, where)
	require.EqualValues(r.t, *p.DstQPN, got.QPN, where)
	require.Equal(r.t, p.DstQKey, got.QKey, where)
	r.same(r.now.data(), got.Bytes, where)
	r.same(p.Hex, got.Bytes[:len(p.Hex)], where)
}

// unite makes one piece of those that lie side by side in an atomic of ours, which names one
// piece of the other side's memory.
func (r *replay) unite(pkt wire.Packet) {
	h, ok := pkt.(*wire.RTA)
	for ok && h.RMAIOVCount > 1 && h.RMAIOV[0].Key == h.RMAIOV[1].Key && h.RMAIOV[0].Addr+h.RMAIOV[0].Len == h.RMAIOV[1].Addr {
		h.RMAIOV[0].Len += h.RMAIOV[1].Len
		copy(h.RMAIOV[1:], h.RMAIOV[2:])
		h.RMAIOVCount--
		r.result.note(r.now.first.Op + " with one piece")
	}
}

// byRDMA reports whether the operation in progress is a write by our device.
func (r *replay) byRDMA() bool { return r.want[len(r.want)-1].Type == golden.RDMAWrite }

func writtenLine(from string, n int, data uint64) string {
	return fmt.Sprintf("written from=%s len=%d data=0x%x", from, n, data)
}

// countWritten is how many writes with data we were told of.
func (r *replay) countWritten() (n int) {
	for _, line := range r.rig.Log {
		if strings.HasPrefix(line, "written ") {
			n++
		}
	}
	return n
}

// same compares bytes, and shows where they differ.
func (r *replay) same(want, got []byte, where string) {
	n := 0
	for n < min(len(want), len(got)) && want[n] == got[n] {
		n++
	}
	if n < max(len(want), len(got)) {
		cut := func(b []byte) []byte { return b[min(n, len(b)):min(n+32, len(b))] }
		require.Fail(r.t, "bytes differ", "at %d: %x of %d bytes, want %x of %d; %s",
			n, cut(got), len(got), cut(want), len(want), where)
	}
}

// announced is the id in a packet that its sender gives the other side, nil if
// there is none.
func announced(pkt wire.Packet) *uint32 {
	switch h := pkt.(type) {
	case *wire.LongCTSRTM:
		return &h.SendID
	case *wire.LongReadRTM:
		return &h.SendID
	case *wire.RuntReadRTM:
		return &h.SendID
	case *wire.LongCTSRTW:
		return &h.SendID
	case *wire.LongReadRTW:
		return &h.SendID
	case *wire.READRSP:
		return &h.SendID
	case *wire.CTS:
		return &h.RecvID
	case *wire.RTR:
		return &h.RecvID
	case *wire.EOR:
		return &h.RecvID
	case *wire.ReadNACK:
		return &h.RecvID
	case *wire.RTA:
		switch h.Kind {
		case wire.RTAFetch, wire.RTACompare:
			return &h.RecvID
		case wire.RTADCWrite:
			return &h.SendID
		}
	case *wire.EagerRTM:
		if h.DC {
			return &h.SendID
		}
	case *wire.MediumRTM:
		if h.DC {
			return &h.SendID
		}
	case *wire.EagerRTW:
		if h.DC {
			return &h.SendID
		}
	}
	return nil
}

// echoed is the id in a packet that its receiver has given out, nil if there is
// none.
func echoed(pkt wire.Packet) *uint32 {
	switch h := pkt.(type) {
	case *wire.CTS:
		return &h.SendID
	case *wire.CTSData:
		return &h.RecvID
	case *wire.READRSP:
		return &h.RecvID
	case *wire.ATOMRSP:
		return &h.RecvID
	case *wire.EOR:
		return &h.SendID
	case *wire.ReadNACK:
		return &h.SendID
	case *wire.Receipt:
		return &h.TxID
	case *wire.PeerError:
		if h.RefKind == wire.RefOpe && h.OpID != wire.NoOpID {
			return &h.OpID
		}
	}
	return nil
}

// toOurs puts our ids into a packet of the other side.
func (r *replay) toOurs(pkt wire.Packet) {
	id := echoed(pkt)
	if id == nil {
		return
	}
	ours, ok := r.mine[*id]
	require.True(r.t, ok, "%s: id %d was never given out", pkt.Type(), *id)
	*id = ours
}

// learn notes which id of ours the captured one is, and puts it in its place. In an
// operation it stays the same.
func (r *replay) learn(want, got wire.Packet, where string) {
	w, g := announced(want), announced(got)
	if w == nil {
		return
	}
	require.NotNil(r.t, g, where)
	if r.ids[*w] {
		require.Equal(r.t, r.mine[*w], *g, where)
	}
	r.ids[*w], r.mine[*w] = true, *g
	*w = *g
}

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

// madeUp is where regions lie of which the capture has no address.
const madeUp = 0x7e0000000000

// register makes a region of a buffer of the operation's, as libfabric does with
// every buffer that RDMA may concern, unless the process could not.
func (r *replay) register(buf []byte, op *operation) {
	if r.env("EFASHIM_RDMA_READ", 1) == 0 || !r.registers(len(buf)) ||
		r.env("FI_EFA_MR_CACHE_ENABLE", 1) == 0 && !op.flags["desc"] { // then libfabric registers nothing by itself
		return
	}
	r.keys++
	at := wire.RMAIOV{Addr: madeUp + uint64(r.keys)<<24, Key: uint64(r.keys)}
	for _, p := range r.s.Packets[op.first.Seq:] {
		if p.Op != op.first.Op || p.Seed != op.first.Seed {
			break
		}
		if p.From != r.side || p.Hex == nil || p.Type == golden.Headerless {
			continue
		}
		if iov := readIOV(r.decode(p).pkt); len(iov) > 0 {
			at = iov[0]
			break
		}
	}
	r.registerAt(buf, at.Addr, at.Key)
}

// registerAt makes a region with the address and key that the capture says.
func (r *replay) registerAt(mem []byte, addr, key uint64) {
	r.keys++
	x, err := r.rig.RegisterAt(fmt.Sprintf("m%d", r.keys), mem,
		script.Rights{Send: true, Recv: true, RemoteRead: true, RemoteWrite: true}, addr, key)
	require.NoError(r.t, err)
	r.regions = append(r.regions, x)
}

// outstanding is the buffer of sends that are left outstanding: one for all of
// them, which stays.
func (r *replay) outstanding(n int) []byte {
	for _, x := range r.kept {
		if len(x.Bytes()) == n {
			return x.Bytes()
		}
	}
	buf := make([]byte, n)
	before := len(r.regions)
	r.register(buf, r.now)
	r.kept = append(r.kept, r.regions[before:]...)
	r.regions = r.regions[:before]
	return buf
}

// readIOV is the memory of the sender's that a packet offers to be read.
func readIOV(pkt wire.Packet) []wire.RMAIOV {
	switch h := pkt.(type) {
	case *wire.LongReadRTM:
		return h.ReadIOV[:h.ReadIOVCount]
	case *wire.RuntReadRTM:
		return h.ReadIOV[:h.ReadIOVCount]
	case *wire.LongReadRTW:
		return h.ReadIOV[:h.ReadIOVCount]
	default:
		return nil
	}
}

// share lets our device reach the memory that a packet of the other side offers.
func (r *replay) share(pkt wire.Packet) {
	if r.now.name == "" {
		return // nobody receives it
	}
	if r.env("EFASHIM_FAIL_READ", 0) != 0 || r.now.flags["mrclose"] {
		return // so that reads of it fail, with the status that was captured
	}
	off := uint64(0)
	for _, v := range readIOV(pkt) {
		r.reachable(v.Addr, v.Key, r.now.data()[off:][:v.Len])
		off += v.Len
	}
}

// reachable is memory of the other side's that our device reaches during the
// operation in progress.
func (r *replay) reachable(addr, key uint64, b []byte) {
	for _, m := range r.theirs {
		if m.Addr == addr && m.Key == key {
			m.Bytes = b
			return
		}
	}
	m := &script.Memory{GID: r.other.Addr.GID(), QPN: r.other.Addr.QPN(), Addr: addr, Key: key, Bytes: b}
	r.theirs = append(r.theirs, m)
	r.rig.QP.AddMemory(m)
}

// reach finds the memory of ours that an RDMA request of the other side names, and
// where in its region that begins.
func (r *replay) reach(p golden.Packet) (b []byte, off int) {
	for _, x := range r.regions {
		if x.Key(0) != p.WRRKey || p.WRAddr < x.Addr(0) {
			continue
		}
		off := p.WRAddr - x.Addr(0)
		require.LessOrEqual(r.t, off+uint64(p.Len), uint64(len(x.Bytes())), "packet %d", p.Seq)
		return x.Bytes()[off:][:p.Len], int(off)
	}
	require.Fail(r.t, "RDMA to memory that we did not offer", "packet %d", p.Seq)
	return nil, 0
}

// withdraw closes the memory that the operation in progress had offered.
func (r *replay) withdraw() {
	for _, x := range r.regions {
		r.rig.CloseRegion(x)
		require.True(r.t, x.Closed, x.Name)
	}
	r.regions = nil
	for _, m := range r.theirs {
		m.Bytes = nil
	}
}
