package endpoint_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// replay is a captured scenario with an endpoint of ours in one of the two places:
// it has the address, connid and settings of the process that was there, does what
// that process did, gets what the other one sent, and must send the same bytes.
type replay struct {
	t     *testing.T
	s     *golden.Scenario
	side  string // whose place we have
	rig   *script.Rig
	other *script.Remote

	now     golden.Packet  // the operation in progress, by Op and Seed
	late    func()         // posts its receive, if that is to be late (unexp)
	sent    map[uint32]int // msg_ids of sends before the first operation
	ops     []*script.Op   // that must succeed
	want    []golden.Packet
	matched int               // of want and of what we sent
	mine    map[uint32]uint32 // ids on the wire: captured to ours
}

// messages are the packets of two-sided operations that are built.
var messages = []string{
	"EAGER_MSGRTM", "EAGER_TAGRTM", "MEDIUM_MSGRTM", "MEDIUM_TAGRTM",
	"LONGCTS_MSGRTM", "LONGCTS_TAGRTM", "CTS", "CTSDATA", "HANDSHAKE",
}

// replayable is how much of a scenario can be replayed: the packets before the
// first operation that is not a message, or that takes another subprotocol.
func replayable(s *golden.Scenario) []golden.Packet {
	for _, a := range s.Args {
		if a == "-H" || a == "-z" || a == "-Z" {
			return nil // an extra feature from the first packet on
		}
	}
	for i, p := range s.Packets {
		name, flags, _ := strings.Cut(strings.TrimPrefix(p.Op, "B:"), ":")
		built := p.Op == "" || (name == "send" || name == "tsend") && !slices.Contains(strings.Split(flags, ","), "dc")
		if built && slices.Contains(messages, p.Type) {
			continue
		}
		// What this operation did up to here isn't replayed either.
		for i > 0 && s.Packets[i-1].Op == p.Op && s.Packets[i-1].Seed == p.Seed && p.Op != "" {
			i--
		}
		return s.Packets[:i]
	}
	return s.Packets
}

func newReplay(t *testing.T, s *golden.Scenario, side string) *replay {
	r := &replay{t: t, s: s, side: side, sent: map[uint32]int{}, mine: map[uint32]uint32{}}
	me, them := wire.RawAddr(s.RawAddr[side]), wire.RawAddr(s.RawAddr[r.peer()])
	policy := ope.Policy{MaxMedium: r.env("FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE"), Credits: r.env("FI_EFA_TX_MIN_CREDITS")}
	if s.Libfabric == "1.17.0" {
		policy.Rounding = ope.RoundUp
	}
	host, _ := strconv.ParseUint(strings.TrimPrefix(s.Env["EFASHIM_HOST_ID"], "i-0"), 16, 64)
	var err error
	r.rig, err = script.Start(script.Config{
		Info: device.Info{GID: me.GID(), MTU: golden.MTU, CopiesAtPost: true, PartID: uint32(r.env("EFASHIM_PART_ID"))},
		Endpoint: endpoint.Config{
			ConnID: me.ConnID(), QPN: me.QPN(), Policy: policy,
			Peer: peer.Config{Features: wire.MakeFeatures(wire.FeatureConnIDHeader), HostID: host},
		},
	})
	require.NoError(t, err)
	r.rig.Auto = true
	r.other = &script.Remote{Name: r.peer(), Addr: them}
	r.rig.AddRemote(r.other)
	if side == "A" || !slices.Contains(s.Args, "-u") {
		r.rig.Insert(r.other)
	}
	return r
}

func (r *replay) peer() string {
	if r.side == "A" {
		return "B"
	}
	return "A"
}

func (r *replay) env(name string) int {
	v, ok := r.s.Env[name]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v, 0, 64)
	require.NoError(r.t, err, name)
	return int(n)
}

// run replays the packets and checks the outcomes.
func (r *replay) run(packets []golden.Packet) {
	for _, p := range packets {
		if p.Op != r.now.Op || p.Seed != r.now.Seed {
			r.post()
			r.begin(p)
		}
		if p.From != r.side {
			r.rig.Run()
			r.match()
			b := r.rebuild(p)
			r.toOurs(b)
			require.True(r.t, r.rig.Inject(r.other, b), "no receive posted for packet %d", p.Seq)
			r.rig.Run()
			continue
		}
		if p.Type == "CTS" {
			r.post()
		}
		if p.Op == "" {
			r.outstanding(p)
		}
		r.want = append(r.want, p)
	}
	r.post()
	r.rig.Run()
	r.match()
	require.Equal(r.t, len(r.want), r.matched, "packets that were never sent, from %d on", r.matched)
	require.Len(r.t, r.rig.QP.Sent(), r.matched, "packets that libfabric did not send")
	for _, op := range r.ops {
		require.Equal(r.t, 1, op.Ends, op.Name)
	}
	for _, o := range r.rig.Outcomes {
		r.check(o)
	}
	require.NoError(r.t, r.rig.Close())
	require.Empty(r.t, r.rig.Ends())
	require.Empty(r.t, r.rig.QP.Faults)
	require.Zero(r.t, r.rig.Shard.Stats().Failures)
}

// begin submits the operation whose first packet is p.
func (r *replay) begin(p golden.Packet) {
	r.now = p
	if p.Op == "" {
		return
	}
	actor := "A"
	op, passive := strings.CutPrefix(p.Op, "B:")
	if passive {
		actor = "B"
	}
	name, rest, _ := strings.Cut(op, ":")
	words := strings.Split(rest, ",")
	n, err := strconv.Atoi(words[0])
	require.NoError(r.t, err, p.Op)
	req := ope.Request{Kind: ope.KindSend, Peer: r.other.Handle}
	if name == "tsend" {
		req.Flags, req.Tag = ope.Tagged, *p.Tag
	}
	if actor != r.side {
		req.Kind, req.Peer, req.Buf = ope.KindRecv, script.AnySource, make([]byte, n)
		r.late = func() { r.ops = append(r.ops, r.rig.Submit(req, p.Seed)) }
		if !slices.Contains(words, "unexp") {
			r.post()
		}
		return
	}
	if p.CQData != nil {
		req.Flags |= ope.HasData
		req.Data = r.cqData(p)
	}
	if slices.Contains(words, "inject") {
		req.Flags |= ope.Inject
	}
	req.Buf = script.Pattern(n, p.Seed)
	r.ops = append(r.ops, r.rig.Submit(req, p.Seed))
}

// cqData is what was asked for, as it travels: 1.17 cuts it in tagged sends.
func (r *replay) cqData(p golden.Packet) uint64 {
	if r.s.Libfabric == "1.17.0" && p.Tag != nil {
		return uint64(uint32(*p.CQData))
	}
	return *p.CQData
}

// post posts the receive that the operation in progress waits for, if any.
func (r *replay) post() {
	if r.late != nil {
		r.late()
		r.late = nil
		r.rig.Run()
	}
}

// outstanding submits a send that was left outstanding before the first operation
// (option -p), of which only the packet is known. Its data is zero.
func (r *replay) outstanding(p golden.Packet) {
	pkt, n, err := wire.Decode(p.Hex)
	require.NoError(r.t, err)
	req := ope.Request{Kind: ope.KindSend, Flags: ope.Tagged, Peer: r.other.Handle}
	var id uint32
	length := uint64(p.Len - n)
	switch h := pkt.(type) {
	case *wire.EagerRTM:
		id, req.Tag = h.MsgID, h.Tag
	case *wire.MediumRTM:
		id, req.Tag, length = h.MsgID, h.Tag, h.MsgLength
	case *wire.LongCTSRTM:
		id, req.Tag, length = h.MsgID, h.Tag, h.MsgLength
	default:
		return
	}
	if r.sent[id]++; r.sent[id] == 1 {
		req.Buf = make([]byte, length)
		r.rig.Submit(req, 0)
		r.rig.Run()
	}
}

// rebuild gives a packet its data back: the capture has at most 448 bytes of it.
func (r *replay) rebuild(p golden.Packet) []byte {
	pkt, n, err := wire.Decode(p.Hex)
	require.NoError(r.t, err)
	b := make([]byte, p.Len)
	copy(b, p.Hex[:n])
	off := 0
	switch h := pkt.(type) {
	case *wire.MediumRTM:
		off = int(h.SegOffset)
	case *wire.CTSData:
		off = int(h.SegOffset)
	}
	if p.Op != "" && pkt.Type().HasData() {
		script.Fill(b[n:], off, p.Seed)
	}
	require.Equal(r.t, hex.EncodeToString(p.Hex[n:]), hex.EncodeToString(b[n:len(p.Hex)]),
		"packet %d: data is not of the pattern", p.Seq)
	return b
}

// Where ids lie.
const (
	longCTSSendID = 16 // of the sender of LONGCTS RTM
	ctsSendID     = 8  // of the receiver of CTS
	ctsRecvID     = 12 // of the sender of CTS
	ctsDataRecvID = 4  // of the receiver of CTSDATA
	ctsDataPad    = 28
)

// toOurs puts our ids into a packet of the other side.
func (r *replay) toOurs(b []byte) {
	switch wire.Type(b[0]) {
	case wire.TypeCTS:
		r.swap(b[ctsSendID:])
	case wire.TypeCTSData:
		r.swap(b[ctsDataRecvID:])
	}
}

func (r *replay) swap(b []byte) {
	ours, ok := r.mine[le.Uint32(b)]
	require.True(r.t, ok, "id %d was never given out", le.Uint32(b))
	le.PutUint32(b, ours)
}

// match compares what we sent so far with what libfabric sent: everything but ids
// of ours, the padding of CTSDATA and the contents of HANDSHAKE.
func (r *replay) match() {
	sent := r.rig.QP.Sent()
	for ; r.matched < len(sent) && r.matched < len(r.want); r.matched++ {
		got, p := sent[r.matched].Bytes, r.want[r.matched]
		want := r.rebuild(p)
		where := fmt.Sprintf("packet %d, %s\ngot  %s\nwant %s", p.Seq, p.Type, wire.Summary(got), wire.Summary(want))
		require.Equal(r.t, p.DstQKey, sent[r.matched].QKey, where)
		switch t := wire.Type(got[0]); t {
		case wire.TypeHandshake:
			require.Equal(r.t, p.Type, t.String(), where)
			continue
		case wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM:
			r.learn(want[longCTSSendID:], got[longCTSSendID:])
		case wire.TypeCTS:
			r.learn(want[ctsRecvID:], got[ctsRecvID:])
		case wire.TypeCTSData:
			if le.Uint16(want[2:])&wire.FlagConnID != 0 {
				clear(want[ctsDataPad : ctsDataPad+4])
			}
		}
		require.Equal(r.t, hex.EncodeToString(want), hex.EncodeToString(got), where)
	}
}

// learn notes that libfabric's id in want is ours in got.
func (r *replay) learn(want, got []byte) {
	r.mine[le.Uint32(want)] = le.Uint32(got)
	copy(want[:4], got[:4])
}

// check looks at an outcome: success, and the right data.
func (r *replay) check(o script.Outcome) {
	require.NoError(r.t, o.Res.Err, o.Op.Name)
	if o.Op.Req.Kind == ope.KindSend {
		return
	}
	require.Len(r.t, o.Op.Req.Buf, o.Res.N)
	seed, ok := script.Seed(o.Op.Req.Buf, 0)
	require.True(r.t, ok)
	if o.Res.N > 0 {
		require.Equal(r.t, o.Op.Seed, seed, o.Op.Name)
	}
	for _, p := range r.s.Packets {
		if p.Seed != o.Op.Seed || p.Op == "" {
			continue
		}
		require.Equal(r.t, p.CQData != nil, o.Res.HasData)
		if p.CQData != nil {
			require.Equal(r.t, r.cqData(p), o.Res.Data)
		}
		return
	}
}
