package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
)

// goldenPackets calls f with every captured packet of the protocol. One-sided
// requests and headerless datagrams aren't packets; they are counted as skipped.
func goldenPackets(t testing.TB, f func(s *golden.Scenario, p *golden.Packet)) (checked, skipped map[string]int) {
	t.Helper()
	scenarios, err := golden.Load()
	require.NoError(t, err)
	checked, skipped = map[string]int{}, map[string]int{}
	for i := range scenarios {
		s := &scenarios[i]
		for j := range s.Packets {
			p := &s.Packets[j]
			switch p.Type {
			case golden.Headerless, golden.RDMARead, golden.RDMAWrite:
				skipped[p.Type]++
			default:
				checked[p.Type]++
				f(s, p)
			}
		}
	}
	return checked, skipped
}

// TestGolden decodes every packet that libfabric 1.17.0 and 2.3.1 sent, compares
// the fields with what the application did, and encodes it to the same bytes.
func TestGolden(t *testing.T) {
	compared, masked := 0, 0
	checked, skipped := goldenPackets(t, func(s *golden.Scenario, p *golden.Packet) {
		c := check{s: s, p: p}
		c.Assertions = require.New(&scenarioT{t, c.String()})
		pkt, n, err := Decode(p.Hex)
		c.NoError(err)
		c.pkt, c.n = pkt, n
		c.Equal(p.Type, pkt.Type().String())
		c.sender()
		c.fields()
		c.payload()
		a, b := c.encode()
		compared, masked = compared+a, masked+b
	})

	require.Equal(t, map[string]int{"RDMA_READ": 67, "RDMA_WRITE": 6, "HEADERLESS": 3}, skipped)
	total := 0
	for i := range infos {
		typ := Type(i)
		// Neither release ever sends these: the captures lack PEER_ERROR alone.
		require.Equal(t, typ.Known() && typ != TypePeerError, checked[typ.String()] > 0, "%v", typ)
		total += checked[typ.String()]
	}
	require.Equal(t, 1553, total)
	t.Logf("%d packets: %d header bytes compared, %d bytes of padding not compared", total, compared, masked)
}

// TestGoldenPeerErrors: each captured PEER_ERROR, of 20, 24 and 28 bytes, names its sender and is
// encoded to the same bytes.
func TestGoldenPeerErrors(t *testing.T) {
	scenarios, err := golden.LoadAll()
	require.NoError(t, err)
	seen := map[int]int{}
	for i := range scenarios {
		s := &scenarios[i]
		s.Each(func(p *golden.Packet, _ string, b []byte) {
			if Type(b[0]) != TypePeerError {
				return
			}
			seen[len(b)]++
			v, err := Open(b)
			require.NoError(t, err)
			connid, ok := v.ConnID()
			require.True(t, ok, "%s %s", s.Libfabric, s.Name)
			require.Equal(t, s.ConnID[p.From], connid, "%s %s", s.Libfabric, s.Name)
			var e PeerError
			_, err = e.Read(&v)
			require.NoError(t, err)
			require.Equal(t, b, e.Append(nil))
			require.True(t, e.Form == PeerErrorForm20 || e.Emitter == EmitterTX && e.OpID == NoOpID || e.Emitter == EmitterRX && e.OpID != NoOpID)
		})
	}
	require.Len(t, seen, 3, "%v", seen)
	for n := range seen {
		require.Contains(t, []int{20, 24, 28}, n)
	}
}

// scenarioT puts the packet's name in front of failures.
type scenarioT struct {
	t    testing.TB
	name string
}

func (s *scenarioT) Errorf(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf(s.name+": "+format, args...)
}
func (s *scenarioT) FailNow() { s.t.FailNow() }

// check is one captured packet under test.
type check struct {
	*require.Assertions
	s   *golden.Scenario
	p   *golden.Packet
	pkt Packet
	n   int // header bytes
}

func (c *check) String() string {
	return c.s.Libfabric + " " + c.s.Name + " #" + strconv.Itoa(c.p.Seq) + " " + c.p.Type + " during " + c.p.Op
}

// sender checks that the packet names the endpoint that sent it.
func (c *check) sender() {
	connid, ok := connIDOf(c.p.Hex)
	c.True(ok, "both releases know connid")
	c.Equal(c.s.ConnID[c.p.From], connid)
	want, ok := connIDOfDecoded(c.pkt)
	c.True(ok)
	c.Equal(want, connid)

	raw := RawAddr(c.s.RawAddr[c.p.From])
	c.Equal(raw.ConnID(), connid)
	if o := optionsOf(c.pkt); o != nil {
		c.NotEqual(o.HasRawAddr, o.HasConnID, "raw address and connid exclude each other")
		if o.HasRawAddr {
			c.Equal(raw, o.RawAddr)
		}
	}
}

// encode compares what Append makes of the decoded packet with the captured
// bytes. Bytes that libfabric leaves uninitialised aren't compared; ours must
// be zero.
func (c *check) encode() (compared, masked int) {
	got := c.pkt.Append(nil)
	c.Len(got, c.n)
	pads := uninitialised(c.p.Hex)
	want := bytes.Clone([]byte(c.p.Hex[:c.n]))
	for i := range want {
		if pads[i] {
			want[i] = 0
			masked++
		} else {
			compared++
		}
	}
	c.Equal(want, got)
	return compared, masked
}

// uninitialised is padding less that of the raw address header, which libfabric
// zeroes.
func uninitialised(b []byte) map[int]bool {
	pads := padding(b)
	if Type(b[0]).IsREQ() {
		for i := range pads {
			if i >= int(infos[b[0]].headerLen) {
				delete(pads, i)
			}
		}
	}
	return pads
}

// operation is what the application did, from golden.Packet.Op.
type operation struct {
	side  string // A or B: the acting side
	name  string
	n     int // bytes, or elements of an atomic
	flags map[string]bool
}

func (c *check) operation() (op operation) {
	text, passive := strings.CutPrefix(c.p.Op, "B:")
	op.side = "A"
	if passive {
		op.side = "B"
	}
	name, rest, ok := strings.Cut(text, ":")
	c.True(ok)
	words := strings.Split(rest, ",")
	n, err := strconv.Atoi(words[0])
	c.NoError(err)
	op.name, op.n, op.flags = name, n, map[string]bool{}
	for _, w := range words[1:] {
		op.flags[w] = true
	}
	return op
}

// bytes is the length of the operation's data.
func (c *check) bytes(op operation) uint64 {
	if c.p.Datatype != nil {
		return uint64(op.n * Datatype(*c.p.Datatype).Size())
	}
	return uint64(op.n)
}

// goldenFeatures is what the releases advertise, apart from what the device, the
// mode and a setting add.
var goldenFeatures = map[string]Features{
	"1.17.0": MakeFeatures(FeatureDeliveryComplete, FeatureConnIDHeader, FeatureRunt),
	"2.3.1":  MakeFeatures(FeatureDeliveryComplete, FeatureConnIDHeader, FeatureRunt, FeatureReadNACK),
}

// fields compares the decoded fields with the operation. Traffic of operations
// that were left outstanding before the first one, and HANDSHAKE, have none.
func (c *check) fields() {
	if h, ok := c.pkt.(*Handshake); ok {
		c.handshake(h)
		return
	}
	if c.p.Op == "" {
		return
	}
	op := c.operation()
	c.Equal(op.flags["dc"] && c.pkt.Type().IsREQ() && !c.solicits() && !c.readsRemotely(), c.pkt.Type().IsDC())
	if o := optionsOf(c.pkt); o != nil {
		c.Equal(op.side, c.p.From)
		if c.solicits() {
			return
		}
		c.cqData(o)
	}
	size := c.bytes(op)
	data := uint64(c.p.Len - c.n)
	switch p := c.pkt.(type) {
	case *EagerRTM:
		c.tag(p.Tagged, p.Tag)
		c.Equal(size, data)
	case *MediumRTM:
		c.tag(p.Tagged, p.Tag)
		c.Equal(size, p.MsgLength)
		c.LessOrEqual(p.SegOffset+data, size)
	case *LongCTSRTM:
		c.tag(p.Tagged, p.Tag)
		c.Equal(size, p.MsgLength)
		c.Equal(p.ReadNACK, strings.Contains(c.s.Name, "read-nack"))
		c.Equal(p.ReadNACK, data == 0)
		c.Equal(c.credits(), p.CreditRequest)
	case *LongReadRTM:
		c.tag(p.Tagged, p.Tag)
		c.Equal(size, p.MsgLength)
		c.Zero(data)
		c.readIOV(p.ReadIOV, p.ReadIOVCount, size)
	case *RuntReadRTM:
		c.tag(p.Tagged, p.Tag)
		c.Equal(size, p.MsgLength)
		c.Equal(c.s.Env["FI_EFA_RUNT_SIZE"], "20000")
		c.EqualValues(20000, p.RuntLength)
		c.LessOrEqual(p.SegOffset+data, p.RuntLength)
		c.readIOV(p.ReadIOV, p.ReadIOVCount, size)
	case *EagerRTW:
		c.Equal(size, data)
		c.rmaIOV(p.RMAIOV, p.RMAIOVCount, size)
	case *LongCTSRTW:
		c.Equal(size, p.MsgLength)
		c.Equal(c.credits(), p.CreditRequest)
		c.rmaIOV(p.RMAIOV, p.RMAIOVCount, size)
	case *LongReadRTW:
		c.Equal(size, p.MsgLength)
		c.Zero(data)
		c.rmaIOV(p.RMAIOV, p.RMAIOVCount, size)
		c.readIOV(p.ReadIOV, p.ReadIOVCount, size)
	case *RTR:
		c.Equal(size, p.MsgLength)
		c.Zero(data)
		c.LessOrEqual(uint64(p.RecvLength), size)
		c.Equal(p.LongCTS, size > golden.MTU-READRSPLen)
		c.rmaIOV(p.RMAIOV, p.RMAIOVCount, size)
	case *RTA:
		c.EqualValues(*c.p.Datatype, p.Datatype)
		c.EqualValues(*c.p.AtomicOp, p.Op)
		c.Equal(map[string]bool{"atomic": true, "fetch": p.Kind == RTAFetch, "compare": p.Kind == RTACompare}[op.name], true)
		c.True(p.Op.Accepts(p.Kind, p.Datatype))
		c.rmaIOV(p.RMAIOV, p.RMAIOVCount, size)
	case *CTS:
		c.Equal(op.name == "read", op.side == c.p.From, "the receiver of the data grants")
		c.Equal(op.name == "read", p.EmulatedRead)
		c.NotZero(p.RecvLength)
		c.LessOrEqual(p.RecvLength, size)
	case *CTSData:
		c.Equal(data, p.SegLength)
		c.LessOrEqual(p.SegOffset+p.SegLength, size)
	case *READRSP:
		c.Equal(data, p.SegLength)
	case *ATOMRSP:
		c.Equal(data, p.SegLength)
		c.Equal(size, data)
	default: // ids alone: TestGoldenIDs
		c.Zero(data)
	}
}

func (c *check) handshake(h *Handshake) {
	want := goldenFeatures[c.s.Libfabric]
	got := h.Features
	for f := range Feature(256) {
		switch f {
		case FeatureRDMARead, FeatureRDMAWrite:
			if c.s.Env["EFASHIM_RDMA_READ"] == "0" && f == FeatureRDMARead || c.s.Env["EFASHIM_RDMA_WRITE"] == "0" && f == FeatureRDMAWrite {
				c.False(got.Has(f))
			}
		case FeatureConstantHeader, FeatureUserRecvQP:
			mode := map[Feature]string{FeatureConstantHeader: "zcpy/prefix", FeatureUserRecvQP: "zcpy/user-recv-qp"}[f]
			c.Equal(c.s.Name == mode, got.Has(f), "%v", f)
		case FeatureUnsolicitedWrite:
			c.Equal(c.s.Libfabric == "2.3.1" && !strings.HasSuffix(c.s.Name, "-solicited"), got.Has(f))
		default:
			c.Equal(want.Has(f), got.Has(f), "%v", f)
		}
	}
	c.Equal(c.s.Libfabric == "2.3.1", h.HasDeviceVersion)
	if h.HasDeviceVersion {
		part := uint32(0xefa1)
		switch c.s.Env["EFASHIM_PART_ID"] {
		case "0xefa0":
			part = 0xefa0
		case "0xefa3":
			part = 0xefa3
		}
		c.Equal(part, h.DeviceVersion)
	}
	c.Equal(h.HasDeviceVersion && c.s.Env["EFASHIM_HOST_ID"] != "", h.HasHostID)
	if h.HasHostID {
		c.EqualValues(0x123456789abcdef0, h.HostID)
	}
	c.Equal(h.Features.Has(FeatureUserRecvQP), h.HasUserRecvQP)
	c.False(h.HasP2P)
	c.Equal(c.n, c.p.Len)
}

// solicits reports whether the packet asks for a HANDSHAKE and carries nothing.
func (c *check) solicits() bool {
	p, ok := c.pkt.(*EagerRTW)
	return ok && p.RMAIOVCount == 0 && c.p.Len == c.n
}

// readsRemotely reports whether the data goes by RDMA read, whose EOR does for
// delivery complete.
func (c *check) readsRemotely() bool {
	switch c.pkt.(type) {
	case *LongReadRTM, *RuntReadRTM, *LongReadRTW:
		return true
	default:
		return false
	}
}

func (c *check) tag(tagged bool, tag uint64) {
	c.Equal(c.p.Tag != nil, tagged)
	if tagged {
		c.Equal(*c.p.Tag, tag)
	}
}

func (c *check) cqData(o *Options) {
	c.Equal(c.p.CQData != nil, o.HasCQData)
	if !o.HasCQData {
		return
	}
	want := *c.p.CQData
	if c.s.Libfabric == "1.17.0" && c.pkt.Type().IsTagged() {
		want &= math.MaxUint32 // that release cuts the CQ data of tagged sends
	}
	c.Equal(want, o.CQData)
}

// credits is the credit_request of both releases: FI_EFA_TX_MIN_CREDITS.
func (c *check) credits() uint32 {
	if c.s.Env["FI_EFA_TX_MIN_CREDITS"] == "2" {
		return 2
	}
	return 32
}

func (c *check) rmaIOV(iov [MaxIOV]RMAIOV, count uint32, size uint64) {
	op := c.operation()
	pieces := 1
	if op.flags["riov2"] {
		pieces = 2
	}
	c.EqualValues(pieces, count)
	c.Equal(*c.p.RemoteAddr, iov[0].Addr)
	total := uint64(0)
	for _, e := range iov[:count] {
		c.Equal(*c.p.RemoteKey, e.Key)
		total += e.Len
	}
	c.Equal(size, total)
	c.Equal(make([]RMAIOV, MaxIOV-count), iov[count:])
}

func (c *check) readIOV(iov [MaxIOV]RMAIOV, count uint32, size uint64) {
	total := uint64(0)
	for _, e := range iov[:count] {
		c.NotZero(e.Addr)
		c.NotZero(e.Key)
		total += e.Len
	}
	c.Equal(size, total)
	// The receiver reads memory that was announced.
	for _, other := range c.s.Packets {
		if other.Type == golden.RDMARead && other.Op == c.p.Op && other.Seq > c.p.Seq {
			c.True(slices.ContainsFunc(iov[:count], func(e RMAIOV) bool {
				return e.Key == other.WRRKey && e.Addr <= other.WRAddr && other.WRAddr+uint64(other.Len) <= e.Addr+e.Len
			}))
		}
	}
}

// payload compares the data behind the headers, as far as it was captured.
func (c *check) payload() {
	if c.p.Op == "" {
		return
	}
	body := []byte(c.p.Hex[c.n:])
	offset := uint64(0)
	switch p := c.pkt.(type) {
	case *RTA:
		c.operands(p, body)
		return
	case *ATOMRSP:
		want := elements(Datatype(*c.p.Datatype), 1000, len(body))
		if c.s.Name == "connid/compare-riov2" && c.s.Libfabric == "2.3.1" {
			// As a responder this release answers a compare over two pieces
			// with the second half, and then what lies behind the buffer.
			want = append(want[len(want)/2:], make([]byte, len(want)/2)...)
		}
		c.Equal(want, body)
		return
	case *MediumRTM:
		offset = p.SegOffset
	case *RuntReadRTM:
		offset = p.SegOffset
	case *CTSData:
		offset = p.SegOffset
	default: // from the start
	}
	want := make([]byte, len(body))
	for i := range want {
		want[i] = byte((offset + uint64(i) + uint64(c.p.Seed)) % 251)
	}
	c.Equal(want, body)
}

func (c *check) operands(p *RTA, body []byte) {
	size := int(c.bytes(c.operation()))
	full := c.p.Len - c.n
	want := elements(p.Datatype, c.p.Seed, size)
	if p.Kind == RTACompare {
		want = append(want, elements(p.Datatype, 1000, size)...)
	}
	c.Len(want, full)
	c.Equal(want[:len(body)], body)
}

// elements is size bytes of elements of type d that count up from first.
func elements(d Datatype, first, size int) (b []byte) {
	for v := first; len(b) < size; v++ {
		switch d {
		case DatatypeUint8:
			b = append(b, byte(v))
		case DatatypeUint32:
			b = le.AppendUint32(b, uint32(v))
		case DatatypeInt64, DatatypeUint64:
			b = le.AppendUint64(b, uint64(v))
		case DatatypeFloat:
			b = le.AppendUint32(b, math.Float32bits(float32(v)))
		case DatatypeDouble:
			b, _ = binary.Append(b, le, float64(v))
		default:
			panic("no capture has " + d.String())
		}
	}
	return b
}

// endpointIDs are the ids and msg_ids that one side has announced.
type endpointIDs struct {
	send      []uint32 // of LONGCTS, LONGREAD and RUNTREAD requests, of READRSP
	readSend  []uint32 // of READRSP alone
	dc        []uint32 // of DC requests
	recv      []uint32 // of CTS, LONGCTS_RTR: for CTSDATA
	readRecv  []uint32 // of RTR: for READRSP
	fetchRecv []uint32 // of FETCH_RTA and COMPARE_RTA: for ATOMRSP
	dcMsgID   []uint32 // of DC RTMs, and 0
}

// TestGoldenIDs follows the ids through every scenario: what a packet echoes,
// its receiver must have announced. In the scenarios of ids/ the two sides' ids
// differ, so fields in the wrong order show.
func TestGoldenIDs(t *testing.T) {
	sides := map[string]*endpointIDs{}
	last := ""
	echoes := 0
	goldenPackets(t, func(s *golden.Scenario, p *golden.Packet) {
		if key := s.Libfabric + s.Name; key != last {
			last = key
			sides = map[string]*endpointIDs{"A": {dcMsgID: []uint32{0}}, "B": {dcMsgID: []uint32{0}}}
		}
		own, peer := sides["A"], sides["B"]
		if p.From == "B" {
			own, peer = peer, own
		}
		echo := func(id uint32, of []uint32) {
			t.Helper()
			echoes++
			require.True(t, slices.Contains(of, id), "%s %s #%d: id %d was not announced in %v", s.Libfabric, s.Name, p.Seq, id, of)
		}
		pkt, _, err := Decode(p.Hex)
		require.NoError(t, err)
		switch q := pkt.(type) {
		case *CTS:
			if q.EmulatedRead {
				echo(q.SendID, peer.readSend)
			} else {
				echo(q.SendID, peer.send)
			}
			own.recv = append(own.recv, q.RecvID)
		case *CTSData:
			echo(q.RecvID, peer.recv)
		case *READRSP:
			echo(q.RecvID, peer.readRecv)
			own.readSend = append(own.readSend, q.SendID)
		case *EOR:
			echo(q.SendID, peer.send)
		case *ReadNACK:
			echo(q.SendID, peer.send)
		case *ATOMRSP:
			echo(q.RecvID, peer.fetchRecv)
		case *Receipt:
			echo(q.TxID, peer.dc)
			echo(q.MsgID, peer.dcMsgID)
		case *LongCTSRTM:
			own.send = append(own.send, q.SendID)
			if q.DC {
				own.dc = append(own.dc, q.SendID)
				own.dcMsgID = append(own.dcMsgID, q.MsgID)
			}
		case *LongReadRTM:
			own.send = append(own.send, q.SendID)
		case *RuntReadRTM:
			own.send = append(own.send, q.SendID)
		case *LongCTSRTW:
			own.send = append(own.send, q.SendID)
			if q.DC {
				own.dc = append(own.dc, q.SendID)
			}
		case *LongReadRTW:
			own.send = append(own.send, q.SendID)
		case *EagerRTM:
			if q.DC {
				own.dc = append(own.dc, q.SendID)
				own.dcMsgID = append(own.dcMsgID, q.MsgID)
			}
		case *MediumRTM:
			if q.DC {
				own.dc = append(own.dc, q.SendID)
				own.dcMsgID = append(own.dcMsgID, q.MsgID)
			}
		case *EagerRTW:
			if q.DC {
				own.dc = append(own.dc, q.SendID)
			}
		case *RTR:
			own.readRecv = append(own.readRecv, q.RecvID)
			if q.LongCTS {
				own.recv = append(own.recv, q.RecvID)
			}
		case *RTA:
			own.fetchRecv = append(own.fetchRecv, q.RecvID)
			if q.Kind == RTADCWrite {
				own.dc = append(own.dc, q.SendID)
			}
		case *Handshake:
		default:
			t.Fatalf("%s was not expected in a capture", p.Type)
		}
	})
	require.Greater(t, echoes, 600)
	t.Logf("%d ids echoed", echoes)
}
