//go:build linux

package libfabric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// The agent on efa-direct: it wants registered buffers (FI_MR_LOCAL, 4), and has no order.
const (
	directCaps    = "msg,source"
	directOptions = "fabric=efa-direct unordered mrmode=116"
)

// directScenarios are what both sides can do without the protocol.
var directScenarios = []struct {
	name string
	rma  bool // needs a device that writes: without, efa-direct has no FI_RMA
	play func(*play)
}{
	{name: "messages", play: directMessages},
	{name: "unexpected messages", play: directEarly},
	{name: "truncation", play: directTruncation},
	{name: "reads", rma: true, play: directReads},
	{name: "writes", rma: true, play: directWrites},
	{name: "refused reads", rma: true, play: directRefused},
}

// TestDirect: libfabric's efa-direct and an endpoint without the protocol, either of which
// begins; efactor on shared memory, and on a card of the same kind.
func TestDirect(t *testing.T) {
	needDirect(t)
	for _, e := range []environment{
		{name: "RDMA read", rdma: true},
		environment{name: "RDMA read"}.shuffled(9),
		{name: "RDMA read, card", rdma: true, card: true},
		{name: "RDMA write, card", rdma: true, card: true, device: "rdma-write"},
	} {
		e.direct, e.rdma = true, true
		t.Run(e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			defer w.end(t)
			for _, s := range directScenarios {
				if s.rma && e.device == "" {
					continue
				}
				for _, begins := range []role{libfabricBegins, efactorBegins} {
					t.Run(s.name+", "+begins.String(), func(t *testing.T) {
						p := w.play(t, begins)
						defer p.cancel()
						s.play(p)
					})
				}
			}
		})
	}
}

// plainly is an operation with buffers as efa-direct wants them.
func plainly(op party.Op) party.Op {
	op.Registered = true
	return op
}

const directMTU = 8760

func directMessages(p *play) {
	for i, size := range []int{0, 1, 32, 33, 100, 4096, directMTU - 1, directMTU} {
		r := plainly(party.Op{Size: directMTU + 100})
		p.exchange(plainly(party.Op{Size: size}), r)
		p.exchange(plainly(party.Op{Size: size, HasData: true, Data: uint64(0xfedcba90 + i)}), r)
	}
	p.exchange(plainly(party.Op{Size: 3000, Pieces: 2}), plainly(party.Op{Size: 4000}))
	p.exchange(party.Op{Size: 20, Inject: true}, plainly(party.Op{}))
	const n = 30
	var sent, got []*party.Pending
	for range n {
		got = append(got, p.start(p.b, plainly(party.Op{Kind: party.Recv, Size: 1000})))
	}
	for i := range n {
		sent = append(sent, p.start(p.a, p.sending(plainly(party.Op{Size: 500 + i}))))
	}
	seen := map[int]bool{}
	for i := range n {
		p.done(sent[i])
		out := p.done(got[i])
		seen[out.N] = true
		require.NoError(p, out.Content.Whole(sent[out.N-500].Op.Seed, out.N))
	}
	require.Len(p, seen, n, "each message once")
}

// directEarly: without a receive a message waits at the sender's device.
func directEarly(p *play) {
	s := p.sending(plainly(party.Op{Size: 300}))
	sent := p.start(p.a, s)
	out := p.start(p.b, p.receiving(s, plainly(party.Op{})))
	p.done(sent)
	p.received(s, p.done(out))
}

func directTruncation(p *play) {
	s := p.sending(plainly(party.Op{Size: 300}))
	got := p.start(p.b, plainly(party.Op{Kind: party.Recv, Size: 100}))
	sent := p.start(p.a, s)
	out := p.ended(got)
	require.Error(p, out.Err())
	_ = p.ended(sent) // by the device's rules it may succeed or not
	p.exchange(plainly(party.Op{Size: 50}), plainly(party.Op{}))
}

func directReads(p *play) {
	for _, size := range []int{1, 5000, 1 << 20} {
		p.reach(plainly(party.Op{Kind: party.Read, Size: size}))
	}
}

func directWrites(p *play) {
	for i, size := range []int{1, 5000, 1 << 20} {
		op := plainly(party.Op{Kind: party.Write, Size: size})
		p.reach(op)
		// The emulated device takes a write with data only while there is a receive, which
		// that does not use up.
		s := p.sending(plainly(party.Op{Size: 70}))
		got := p.start(p.b, p.receiving(s, plainly(party.Op{})))
		op.HasData, op.Data = true, uint64(0xfedcba90+i)
		p.reach(op)
		p.done(p.start(p.a, s))
		p.received(s, p.done(got))
	}
}

func directRefused(p *play) {
	mem, end := p.region(p.b, 1000, party.AccessRemoteRead)
	defer end()
	at := mem.Remote()
	at.Key ^= 0x5a5a
	op := plainly(party.Op{Kind: party.Read, Size: 100, Peer: p.toB, At: at})
	require.Error(p, p.ended(p.start(p.a, op)).Err())
	p.exchange(plainly(party.Op{Size: 50}), plainly(party.Op{}))
}
