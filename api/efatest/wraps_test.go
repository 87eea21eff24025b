package efatest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/wire"
)

// wraps counts how often ids and windows began anew.
type wraps struct {
	uses   map[use]uint32 // the generation seen last
	ids    map[bool]uint64
	msgIDs uint64
}

// use is a place for operations of an endpoint.
type use struct {
	at    sim.Endpoint
	place uint32
}

func newWraps() *wraps { return &wraps{uses: make(map[use]uint32), ids: make(map[bool]uint64)} }

// The parts of an operation's id, as actors/ope has them: 19 bits of place, one for those
// that receive data, 12 of generation.
const (
	idRx    = 1 << 19
	idPlace = 1<<20 - 1
	idUses  = 20
)

// see takes the ids in CTS: one is the sender's own, the other the receiver's.
func (x *wraps) see(e sim.Event) {
	if e.Kind != sim.EventPost || e.WR != device.WRSend {
		return
	}
	if t, ok := e.Type(); !ok || t != byte(wire.TypeCTS) {
		return
	}
	var v wire.View
	var cts wire.CTS
	if v.Open(packet(e)) != nil {
		return
	}
	if _, err := cts.Parse(packet(e)); err != nil {
		return
	}
	x.id(e.From, cts.RecvID)
	x.id(e.To, cts.SendID)
}

func (x *wraps) id(at sim.Endpoint, id uint32) {
	u, g := use{at, id & idPlace}, id>>idUses
	if was, seen := x.uses[u]; seen && g < was {
		x.ids[id&idRx != 0]++
	} else if !seen && g < 1<<11 {
		x.ids[id&idRx != 0]++ // it began near the end
	}
	x.uses[u] = g
}

// snapshot looks how far the msg_ids of both directions came.
func (x *wraps) snapshot(t *testing.T, s *seat, first uint32) {
	snap, err := s.ep.Snapshot(context.Background())
	require.NoError(t, err)
	for _, p := range snap.Peers {
		for _, id := range []uint32{p.NextID, p.ExpectedID} {
			if id < first {
				x.msgIDs++
			}
		}
	}
}

// judge prints the table and fails if something never began anew.
func (x *wraps) judge(t *testing.T, total map[string]uint64) {
	for _, row := range []struct {
		name string
		n    uint64
	}{
		{"msg_ids of 32 bits, of 24 (both directions of each pair)", x.msgIDs},
		{"generations of 12 bits in ids of operations that send", x.ids[false]},
		{"generations of 12 bits in ids of operations that receive", x.ids[true]},
		{"reorder windows of 8 messages, by messages that came early", total["OutOfOrder"] / wrapWindow},
		{"send queues of 64 entries", total["Queue.SendPosted"] / 64 / wrapSeats},
		{"receive queues of 64 slots", total["Queue.RecvDone"] / 64 / wrapSeats},
		{"CTS windows of 4 packets, beyond the first", total["PacketsRecv.CTS"]},
	} {
		t.Logf("%10d %s", row.n, row.name)
		require.NotZero(t, row.n, row.name)
	}
	// Each subprotocol, by a packet that it alone has, and RDMA.
	for _, name := range append(of("PacketsRecv.", "EAGER_TAGRTM", "DC_EAGER_TAGRTM", "MEDIUM_TAGRTM", "DC_MEDIUM_TAGRTM",
		"LONGCTS_TAGRTM", "DC_LONGCTS_TAGRTM", "LONGREAD_TAGRTM", "RUNTREAD_TAGRTM", "DC_EAGER_RTW", "DC_LONGCTS_RTW",
		"SHORT_RTR", "LONGCTS_RTR", "FETCH_RTA", "COMPARE_RTA", "DC_WRITE_RTA", "RECEIPT", "EOR", "ATOMRSP",
	), "Queue.RDMAReads", "Queue.RDMAPosted") {
		t.Logf("%10d %s", total[name], name)
		require.NotZero(t, total[name], name)
	}
}
