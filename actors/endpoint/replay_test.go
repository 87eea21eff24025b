package endpoint_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/eratest"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// replay is a captured scenario with an endpoint of ours in one of the two places:
// it has the address, connid and settings of the process that was there, does the
// same operations, gets the packets of the other process, and must send the same bytes
// and ask its device for the same RDMA.
type replay struct {
	t     *testing.T
	s     *golden.Scenario
	side  string // whose place we have
	rig   *script.Rig
	other *script.Remote

	now     *operation        // in progress
	all     []*operation      // that were submitted
	left    map[uint32]bool   // msg_ids of what was left outstanding before the first operation
	regions []*script.Region  // of the operation in progress
	kept    []*script.Region  // of what was left outstanding
	theirs  []*script.Memory  // that our device reaches
	mine    map[uint32]uint32 // ids on the wire: captured to ours
	ids     map[uint32]bool   // of mine, those of the operation in progress
	keys    uint32            // of regions without a captured one
	written int               // of their writes with data
	want    []golden.Packet   // of our side, so far
	matched int               // of want and of what we sent
	result  outcome
}

// run replays the scenario and checks the outcomes.
func (r *replay) run() {
	for _, p := range r.s.Packets {
		if r.now == nil || p.Op != r.now.first.Op || p.Seed != r.now.first.Seed {
			r.end()
			if !r.s.Completed && !ended(operationAt(r.s, p.Seq)) {
				r.result.note(p.Op + ": left out with what follows, since libfabric did not end it")
				r.now = nil
				break
			}
			r.begin(p)
		}
		if r.now.repeats(p) {
			continue
		}
		r.giveUp(p)
		switch {
		case p.From == r.side:
			r.ours(p)
		case r.now.unseen(p):
		default:
			r.rig.Run()
			r.match()
			r.arrive(p)
			r.rig.Run()
		}
	}
	r.end()
	for _, op := range r.all {
		require.Equal(r.t, 1, op.did.Ends, op.first.Op)
	}
	require.NoError(r.t, r.rig.Close())
	require.Empty(r.t, r.rig.Ends())
	require.Empty(r.t, r.rig.Leaks())
	require.Empty(r.t, r.rig.QP.Faults)
	require.Zero(r.t, r.rig.Shard.Stats().Failures)
}

// ours notes a packet that our side must send.
func (r *replay) ours(p golden.Packet) {
	if p.Type == "CTS" {
		r.post()
	}
	if p.Op == "" {
		r.leave(p)
	}
	r.want = append(r.want, p)
}

// end finishes the operation in progress: everything was sent, nothing else was,
// and data is where it belongs.
func (r *replay) end() {
	if r.now == nil {
		return
	}
	r.post()
	r.rig.Run()
	r.match()
	require.Equal(r.t, len(r.want), r.matched, "%s: packets that were never sent, from %d on", r.now.first.Op, r.matched)
	require.Len(r.t, r.rig.QP.Sent(), r.matched, "%s: packets that libfabric did not send", r.now.first.Op)
	r.check()
	r.withdraw()
	clear(r.ids)
}

// arrive replays a packet or an access of the other side.
func (r *replay) arrive(p golden.Packet) {
	switch p.Type {
	case golden.RDMARead:
		r.result.gotRDMA++
		b, off := r.reach(p)
		r.same(r.now.data()[off:][:p.Len], b, fmt.Sprintf("packet %d", p.Seq))
	case golden.RDMAWrite:
		r.result.gotRDMA++
		b, _ := r.reach(p)
		copy(b, r.now.data())
		if p.Imm != nil {
			require.True(r.t, r.rig.QP.Written(r.other.Addr.GID(), r.other.Addr.QPN(), p.Len, *p.Imm))
		}
	default:
		r.result.gotPackets++
		x := r.decode(p)
		r.toOurs(x.pkt)
		r.share(x.pkt)
		require.True(r.t, r.rig.Inject(r.other, x.bytes()), "no receive posted for packet %d", p.Seq)
	}
}

// match compares what we sent so far with what libfabric sent: everything but
// padding, our ids and the deviations in the notes.
func (r *replay) match() {
	sent := r.rig.QP.Sent()
	for ; r.matched < len(sent) && r.matched < len(r.want); r.matched++ {
		got, p := sent[r.matched], r.want[r.matched]
		switch p.Type {
		case golden.RDMARead, golden.RDMAWrite:
			r.result.rdma++
			r.matchRDMA(got, p)
		case golden.Headerless:
			r.result.packets++
			r.matchHeaderless(got, p)
		default:
			r.result.packets++
			r.matchPacket(got, p)
		}
	}
}

// peer is the other side.
func (r *replay) peer() string {
	if r.side == "A" {
		return "B"
	}
	return "A"
}

func (r *replay) addr(side string) wire.RawAddr { return wire.RawAddr(r.s.RawAddr[side]) }

// newReplay opens the endpoint with the settings of its side in the scenario.
func newReplay(t *testing.T, s *golden.Scenario, side string) *replay {
	r := &replay{
		t: t, s: s, side: side, keys: 1 << 16,
		left: map[uint32]bool{}, mine: map[uint32]uint32{}, ids: map[uint32]bool{},
	}
	for _, a := range s.Args {
		if strings.HasPrefix(a, "-") {
			require.Contains(t, []string{"-u", "-p", "-z", "-Z", "-H"}, a, "option of the driver")
		}
	}
	me := r.addr(side)
	info := device.Info{
		GID: me.GID(), MTU: s.MTU, CopiesAtPost: true, PartID: 0xefa1, LocalKeys: true, MaxRDMA: 1 << 30,
		RDMARead: r.env("EFASHIM_RDMA_READ", 1) != 0, RDMAWrite: r.env("EFASHIM_RDMA_WRITE", 1) != 0,
		UnsolicitedWrite: r.env("EFASHIM_UNSOLICITED", 1) != 0,
	}
	info.PartID = uint32(r.env("EFASHIM_PART_ID", 0xefa1))
	host, _ := strconv.ParseUint(strings.TrimPrefix(s.Env["EFASHIM_HOST_ID"], "i-0"), 16, 64)
	talk, ok := era.Of(s.Release(side))
	require.True(t, ok, s.Libfabric)
	var err error
	cfg := script.Config{
		Info: info,
		Endpoint: endpoint.Config{
			ConnID: me.ConnID(), QPN: me.QPN(),
			Settings: settings.InForce{
				Features: r.features(&info),
				Knobs: settings.Knobs{
					HostID:        host,
					WaitHandshake: slices.Contains(s.Args, "-Z") && talk.Has(wire.FeatureUserRecvQP),
				},
				Settings: settings.Settings{
					MaxMedium:    r.env("FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE", 0),
					Credits:      r.env("FI_EFA_TX_MIN_CREDITS", 0),
					MinRead:      r.env("FI_EFA_INTER_MIN_READ_MESSAGE_SIZE", 0),
					MinReadWrite: r.env("FI_EFA_INTER_MIN_READ_WRITE_SIZE", 0),
					RuntSize:     r.env("FI_EFA_RUNT_SIZE", 0),
					Homogeneous:  slices.Contains(s.Args, "-H"),
					DetachLimit:  detachLimit(s),
				},
			},
		},
	}
	eratest.Adopt(&cfg.Endpoint.Settings, &talk)
	r.rig, err = script.Start(cfg)
	require.NoError(t, err)
	r.rig.Auto = true
	r.other = &script.Remote{Name: r.peer(), Addr: r.addr(r.peer())}
	r.rig.AddRemote(r.other)
	if side == "A" || !slices.Contains(s.Args, "-u") {
		r.rig.Insert(r.other)
	}
	return r
}

// features returns the features of the endpoint on such a device. It advertises those
// that its release knows.
func (r *replay) features(i *device.Info) wire.Features {
	f := settings.Features(new(settings.Settings), i)
	if slices.Contains(r.s.Args, "-z") {
		f.Set(wire.FeatureConstantHeader) // 1.17's receive without copies
	}
	return f
}

// env is a setting of our side's alone, or of both.
func (r *replay) env(name string, def int) int {
	v, ok := r.s.Env[r.side+"_"+name]
	if !ok {
		v, ok = r.s.Env[name]
	}
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 0, 64)
	require.NoError(r.t, err, name)
	return int(n)
}

// registers reports whether the process in our place could register n bytes for its
// device.
func (r *replay) registers(n int) bool {
	const name = "EFASHIM_REG_FAIL_"
	return n > 0 && (n < r.env(name+"MIN", n+1) || n > r.env(name+"MAX", n))
}

// operation is an operation of one of the two applications, and our part in it.
type operation struct {
	first golden.Packet
	name  string // "" before the first one
	actor string // A or B
	n     int    // bytes; of an atomic those of the target
	dt    wire.Datatype
	op    wire.AtomicOp
	flags map[string]bool

	aborted *wire.PeerError // by which its sender gives it up, nil: it does not
	sent    map[string]bool // its packets so far, if some are posted again and again

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
		name, _, _ := strings.Cut(w, "=")
		op.flags[name] = true
	}
	var err error
	op.n, err = strconv.Atoi(words[0])
	require.NoError(r.t, err, p.Op)
	require.Contains(r.t, []string{"send", "tsend", "write", "read", "atomic", "fetch", "compare"}, name, p.Op)
	if op.name = name; p.Datatype != nil {
		op.dt, op.op = wire.Datatype(*p.Datatype), wire.AtomicOp(*p.AtomicOp)
		op.n *= op.dt.Size()
	}
	op.aborted = abortOf(r.s, &p, op.actor)
	if op.flags["mrclose"] && !slices.ContainsFunc(operationAt(r.s, p.Seq), func(q golden.Packet) bool { return q.Type == "PEER_ERROR" }) {
		r.result.note(p.Op + ": its memory was closed too late")
		delete(op.flags, "mrclose")
		delete(op.flags, "fail")
	}
	if op.flags["fill"] {
		op.sent = map[string]bool{}
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
	if op.flags["fill"] { // small messages take the receiver's places, so that it does not see this one
		r.fill()
		r.rig.Auto = false
	}
	r.submit(op, req)
}

// cut has a request name as many pieces as the capture's did.
func (o *operation) cut(req *ope.Request) {
	if req.Kind == ope.KindAtomic {
		return
	}
	if n := o.n / 2; o.flags["iov2"] && n > 0 {
		l := req.GetIOV()
		l.AddLocal(req.Buf[:n])
		l.AddLocal(req.Buf[n:])
		req.Buf, req.Flags = nil, req.Flags|ope.HasIOV
	}
	if n := uint64(o.n) / 3; o.flags["riov2"] && n > 0 {
		l := req.GetIOV()
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
		if op.flags["norecv"] {
			return
		}
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

// operationAt is the packets of the operation that the n-th packet belongs to, from that on.
func operationAt(s *golden.Scenario, n int) []golden.Packet {
	of := s.Packets[n:]
	for i, p := range of {
		if p.Op != of[0].Op || p.Seed != of[0].Seed {
			return of[:i]
		}
	}
	return of
}

// answers has the packets of which one answers a request.
var answers = []struct {
	request func(typ string) bool
	by      []string
}{
	{func(t string) bool { return strings.HasPrefix(t, "DC_") }, []string{"RECEIPT", "PEER_ERROR"}},
	{func(t string) bool { return strings.HasPrefix(t, "LONGREAD_") }, []string{"EOR", "READ_NACK", "PEER_ERROR"}},
	{func(t string) bool { return t == "FETCH_RTA" || t == "COMPARE_RTA" }, []string{"ATOMRSP", "PEER_ERROR"}},
	{func(t string) bool { return strings.HasSuffix(t, "_RTR") }, []string{"READRSP", "PEER_ERROR"}},
	{func(t string) bool { return strings.HasPrefix(t, "LONGCTS_") && t != "LONGCTS_RTR" }, []string{"CTS", "PEER_ERROR"}},
}

// ended reports whether an operation got the answers that its requests ask for. A capture in
// which libfabric hung or crashed does not say where.
func ended(op []golden.Packet) bool {
	if op[0].Op == "" {
		return true // what was left outstanding
	}
	has := map[string]bool{}
	for _, p := range op {
		has[p.Type] = true
	}
	_, flags, _ := strings.Cut(op[0].Op, ",")
	if slices.Contains(strings.Split(flags, ","), "dc") && !has["RECEIPT"] && !has["EOR"] && !has["PEER_ERROR"] && !has[golden.RDMAWrite] {
		return false
	}
	for _, a := range answers {
		asked, answered := false, false
		for typ := range has {
			asked = asked || a.request(typ)
		}
		for _, by := range a.by {
			answered = answered || has[by]
		}
		if asked && !answered {
			return false
		}
	}
	return true
}

func TestEnded(t *testing.T) {
	op := func(types ...string) (all []golden.Packet) {
		for _, typ := range types {
			all = append(all, golden.Packet{Op: "x", Type: typ})
		}
		return all
	}
	for _, whole := range [][]golden.Packet{
		op("EAGER_MSGRTM"), op("HANDSHAKE"), op("DC_EAGER_RTW", "RECEIPT"), op("LONGREAD_RTW", "EOR"), op("SHORT_RTR", "READRSP"),
		op("DC_LONGCTS_MSGRTM", "CTS", "CTSDATA", "RECEIPT"), op("LONGREAD_MSGRTM", "PEER_ERROR"),
		{{Type: "DC_EAGER_RTW"}},
	} {
		require.True(t, ended(whole), "%v", whole)
	}
	for _, part := range [][]golden.Packet{
		op("DC_EAGER_RTW"), op("DC_LONGCTS_MSGRTM", "CTS"), op("LONGREAD_RTW"), op("LONGCTS_RTR"), op("COMPARE_RTA"), op("LONGCTS_RTW"),
		{{Op: "atomic:4,dc", Type: "EAGER_RTW"}},
		{{Op: "B:write:4,iov2,dc", Type: "HANDSHAKE"}},
	} {
		require.False(t, ended(part), "%v", part)
	}
}
