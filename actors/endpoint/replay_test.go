package endpoint_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

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
		if p.From == r.side {
			r.ours(p)
		} else {
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
