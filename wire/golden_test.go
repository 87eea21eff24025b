package wire

import (
	"bytes"
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
	c.Equal(c.n, c.pkt.Len())
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
