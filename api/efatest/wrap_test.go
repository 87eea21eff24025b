package efatest_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/wire"
)

var flagOps = flag.Int("ops", 20_000, "how many operations TestWrap plays over one set of endpoints")

const (
	wrapSeats   = 4
	wrapStreams = 2         // from each endpoint to each other one
	wrapArea    = 64 << 10  // of a target's memory, for each stream
	wrapLongest = 100 << 10 // message
	wrapWindow  = 8         // messages in the reorder window
)

// wrapping is many operations of all kinds among a few endpoints, whose ids begin shortly
// before their end.
type wrapping struct {
	w       *efatest.World
	seats   []*seat
	memory  []*efa.MemoryRegion // of each seat: an area for each stream to it
	source  []*efa.MemoryRegion // of each seat: what long messages are sent from
	streams []*stream
	wraps   *wraps
}

// stream is the operations of one endpoint with another, each of which follows from the
// seed: the other side knows what is to come, and so does the one that reads back.
type stream struct {
	r        *wrapping
	from, to int
	n        int // among those between the two
	ops      int
	count    uint64 // what the counter in the target's memory must be
	received int
}

// next is the next operation of a stream; both of its sides draw the same.
type next struct {
	kind  int // 0 to 6 are messages
	size  int
	level efa.Level
}

func (s *stream) rng() draw {
	return draw{rand.New(rand.NewPCG(uint64(s.from<<16|s.to<<8|s.n), 0x3a9))}
}

func (d draw) next() next {
	return next{
		kind: d.IntN(10), level: pick(d, efa.Transmitted, efa.Transmitted, efa.Delivered),
		size: pick(d, d.IntN(64), d.IntN(64), d.IntN(4000), d.log(1, 20_000), d.log(1, wrapLongest)),
	}
}

func (s *stream) tag() uint64 { return uint64(s.from*wrapStreams + s.n) }

// area is the stream's part of the target's memory; a counter is at its end.
func (s *stream) area() efa.Memory {
	at := uint64(s.from*wrapStreams+s.n) * wrapArea
	return s.r.seats[s.from].ep.Memory(s.r.seats[s.from].to[s.to], s.r.memory[s.to].Remote().Slice(at, wrapArea))
}

func (s *stream) content(i, n int) []byte { return fill(n, byte(i*31)+byte(s.tag())) }

// send does the operations.
func (s *stream) send(ctx context.Context) error {
	d, me, to := s.rng(), s.r.seats[s.from], s.r.seats[s.from].to[s.to]
	mine := s.r.source[s.from].Bytes()[s.to*wrapStreams*wrapLongest+s.n*wrapLongest:][:wrapLongest]
	area := s.area()
	for i := range s.ops {
		o := d.next()
		var err error
		switch {
		case o.kind < 7:
			b := mine[:o.size]
			copy(b, s.content(i, o.size))
			err = me.ep.SendTag(ctx, to, s.tag(), b, efa.Complete(o.level))
		case o.kind == 7:
			n := min(o.size, wrapArea-8)
			at, back := area.Slice(0, uint64(n)), make([]byte, n)
			if err = at.Write(ctx, s.content(i, n), efa.Complete(efa.Delivered)); err == nil && n > 0 {
				err = at.Read(ctx, back)
			}
			if err == nil && !bytes.Equal(back, s.content(i, n)) {
				err = fmt.Errorf("%d bytes are not what was written", n)
			}
		default:
			err = s.add(ctx, area.Slice(wrapArea-8, 8), o)
		}
		if err != nil {
			return fmt.Errorf("operation %d (%+v): %w", i, o, err)
		}
	}
	return nil
}

// add changes the counter, which nobody else does, in one way or another.
func (s *stream) add(ctx context.Context, at efa.Memory, o next) (err error) {
	cell, was := efa.NewCell[uint64](at), s.count
	switch o.size % 3 {
	case 0:
		was, err = cell.FetchAdd(ctx, 1)
	case 1:
		was, err = cell.CompareSwap(ctx, s.count, s.count+1)
	default:
		err = cell.Add(ctx, 1, efa.Complete(efa.Delivered))
	}
	if err == nil && was != s.count {
		err = fmt.Errorf("the counter was %d, not %d", was, s.count)
	}
	s.count++
	return err
}

// receive takes the stream's messages, which come in their order.
func (s *stream) receive(ctx context.Context) error {
	d, ep := s.rng(), s.r.seats[s.to].ep
	buf := make([]byte, wrapLongest)
	for i := range s.ops {
		o := d.next()
		if o.kind >= 7 {
			continue
		}
		m, err := ep.RecvTag(ctx, efa.Match{Tag: s.tag()}, buf, efa.From(s.r.seats[s.to].to[s.from]))
		if err == nil && !bytes.Equal(buf[:m.N], s.content(i, o.size)) {
			err = fmt.Errorf("%d bytes that were not sent", m.N)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		s.received++
	}
	return nil
}

// TestWrap plays operations of all kinds over one set of endpoints while packets are late,
// refused and out of order, until every id and every window has begun anew:
//
//	go test ./api/efatest -run TestWrap -v -timeout 1h -ops 1000000
func TestWrap(t *testing.T) {
	each := *flagOps / (wrapSeats * (wrapSeats - 1) * wrapStreams)
	first := -uint32(each / 2)
	seen := newWraps()
	w := newWorld(t, efatest.Config{Seed: 11, MaxTime: 1000 * time.Hour, Fabric: efatest.FabricConfig{
		Jitter: 20 * time.Microsecond, Hook: seen.see, MTU: 4096,
		Rules: []efatest.Rule{
			{Fault: efatest.FaultRNR, P: .01},
			{Fault: efatest.FaultUnknownAH, P: .01},
			{Fault: efatest.FaultDelay, P: .02, Delay: 200 * time.Microsecond},
			{Fault: efatest.FaultLateStatus, P: .02, Delay: 200 * time.Microsecond},
			{Fault: efatest.FaultQueueFull, P: .01},
		},
	}})
	r := &wrapping{w: w, wraps: seen}
	for i := range wrapSeats {
		rdma := i%2 == 0 // of the others all data goes in packets
		cfg := efa.EndpointConfig{Protocol: efa.ProtocolConfig{
			RecvWindow: wrapWindow, MaxMedium: 8 << 10, MinRead: 64 << 10, MinReadWrite: 16 << 10, RuntSize: 16 << 10,
			SendQueue: 64, RecvQueue: 64, RNRMax: time.Millisecond, Credits: 4,
		}}
		knobs := efatest.KnobsOf(&cfg.Protocol)
		knobs.FirstMsgID, knobs.FirstUse = first, 1<<12-8
		s := seatOn(t, deviceOf(t, w, sim.DeviceConfig{RDMARead: rdma, RDMAWrite: rdma}), cfg)
		r.seats = append(r.seats, s)
		r.memory = append(r.memory, s.window(wrapSeats*wrapStreams*wrapArea))
		r.source = append(r.source, s.window(wrapSeats*wrapStreams*wrapLongest))
	}
	acquaint(r.seats)
	for from := range wrapSeats {
		for to := range wrapSeats {
			for n := range wrapStreams {
				if s := (&stream{r: r, from: from, to: to, n: n, ops: each}); from != to {
					r.streams = append(r.streams, s)
					w.Go(fmt.Sprintf("%d to %d, %d", from, to, n), s.send)
					w.Go(fmt.Sprintf("%d from %d, %d", to, from, n), s.receive)
				}
			}
		}
	}
	require.NoError(t, w.Run())
	for _, s := range r.streams {
		area := r.memory[s.to].Bytes()[int(s.tag()+1)*wrapArea-8:]
		require.Equal(t, s.count, uint64(area[0])|uint64(area[1])<<8|uint64(area[2])<<16, "a counter")
	}
	total := make(map[string]uint64)
	for _, s := range r.seats {
		stats, err := s.ep.Stats(context.Background())
		require.NoError(t, err)
		for k, v := range stats {
			total[k] += v
		}
		for _, name := range []string{"TxInUse", "RxInUse", "MemoryHeld", "Violations", "StaleMsgID", "BadID", "PeersFailed"} {
			require.Zero(t, stats[name], name)
		}
		seen.snapshot(t, s, first)
	}
	t.Logf("%d operations in %v of simulated time", len(r.streams)*each, w.Elapsed())
	seen.judge(t, total)
	for _, s := range r.seats {
		require.NoError(t, s.ep.Close())
	}
}

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
	if _, err := cts.Read(&v); err != nil {
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
