package endpoint_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/internal/script"
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
	where := fmt.Sprintf("packet %d, %s\ngot  %s\nwant %s", p.Seq, p.Type, wire.Summary(got.Bytes), wire.Summary(want.bytes()))
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
