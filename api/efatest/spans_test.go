package efatest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/internal/spans"
	"github.com/efactor/efactor/wire"
)

// TestSpans runs testdata/spans/*.txt: the actions of two endpoints a and b, and the
// resulting spans of both sides, with every event.
func TestSpans(t *testing.T) {
	files, err := filepath.Glob("testdata/spans/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			s := &spanStage{t: t}
			datadriven.RunTest(t, f, func(_ *testing.T, d *datadriven.TestData) string { return s.run(d) })
			s.close()
		})
	}
}

// TestSpansOfAllProtocols: each subprotocol is in one of those files, or among the
// scenarios of package endpoint.
func TestSpansOfAllProtocols(t *testing.T) {
	var all strings.Builder
	for _, pattern := range []string{"testdata/spans/*.txt", "../../actors/endpoint/testdata/spans_*.txt"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			all.Write(text)
		}
	}
	for p := ope.ProtoNone + 1; p < ope.NumProtos; p++ {
		switch p {
		case ope.ReadResponse, ope.AtomicResponse, ope.ReceiptOnly, ope.ErrorOnly: // part of another's
		default:
			require.Contains(t, all.String(), "protocol_chosen protocol="+p.String()+"\n")
		}
	}
}

// spanStage is a world with two endpoints that know each other.
type spanStage struct {
	t     *testing.T
	w     *efatest.World
	spans spans.Log
	a, b  *actor
}

// actor is one of them.
type actor struct {
	name string
	fab  *efa.Fabric
	dom  *efa.Domain
	av   *efa.AddressVector
	ep   *efa.Endpoint
	peer efa.Addr
	mem  *efa.MemoryRegion
}

const stageMemory = 1 << 20

func (s *spanStage) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "world":
		// Opens the endpoints. rdma and so on are what the devices can; mtu, medium,
		// credits, runt, minread, minwrite, segment and sq are settings. greeted: HANDSHAKE
		// went both ways. ratio, slow: of Telemetry.
		//
		//	world mtu=1000 medium=-1 credits=2 greeted
		s.open(d)
		return "ok"
	case "message":
		// a sends to b. late: the receive is posted after the message has come. from and
		// to: the buffers are plain memory, or registered (mem). small: the receive has
		// room for fewer bytes. count: so many at a time.
		//
		//	message len=100 tag=5 late level=delivered from=mem to=plain
		for range max(num(d, "count"), 1) {
			s.message(d)
		}
		require.NoError(s.t, s.w.Run(), d.Pos)
	case "write", "read", "add", "fetch", "swap":
		// a does that with b's memory.
		//
		//	write len=100 level=delivered from=mem
		//	add level=delivered
		s.access(d)
	case "rule":
		// The fabric refuses this many packets of a's as if no receive were posted,
		// or delays HANDSHAKE of b's.
		//
		//	rule rnr=2
		//	rule late
		rule := sim.Rule{Fault: sim.FaultRNR, Times: num(d, "rnr"), From: sim.Endpoint{GID: sim.IndexGID(1)}}
		if d.HasArg("late") {
			rule = sim.Rule{
				Fault: sim.FaultDelay, Delay: time.Millisecond, From: sim.Endpoint{GID: sim.IndexGID(2)},
				Types: []byte{byte(wire.TypeHandshake)},
			}
		}
		_, err := s.w.Fabric().AddRule(rule)
		require.NoError(s.t, err)
		return "ok"
	default:
		s.t.Fatalf("%s: no command %s", d.Pos, d.Cmd)
	}
	return s.told()
}

func num(d *datadriven.TestData, name string) int {
	a, ok := d.Arg(name)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(a.Vals[0])
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", d.Pos, name, err))
	}
	return n
}

func (s *spanStage) open(d *datadriven.TestData) {
	var err error
	s.w, err = efatest.New(efatest.Config{Seed: 1, Fabric: sim.Config{InOrder: true, MTU: num(d, "mtu"), Delay: time.Microsecond}})
	require.NoError(s.t, err)
	dev := sim.DeviceConfig{
		RDMARead: d.HasArg("rdmaread") || d.HasArg("rdma"), RDMAWrite: d.HasArg("rdma"), LocalKeys: d.HasArg("localkeys"),
		UnsolicitedWrite: true, MaxRDMA: num(d, "maxrdma"),
	}
	s.a, s.b = s.actor(d, "a", dev), s.actor(d, "b", dev)
	s.a.peer = s.insert(s.a, s.b)
	s.b.peer = s.insert(s.b, s.a)
	if d.HasArg("greeted") {
		for _, x := range [][2]*actor{{s.a, s.b}, {s.b, s.a}} {
			s.w.Go("greet", func(ctx context.Context) error { return x[0].ep.Send(ctx, x[0].peer, nil) })
			s.w.Go("greeted", func(ctx context.Context) error {
				_, err := x[1].ep.Recv(ctx, nil)
				return err
			})
			require.NoError(s.t, s.w.Run())
		}
		s.told()
	}
}

func (s *spanStage) actor(d *datadriven.TestData, name string, cfg sim.DeviceConfig) *actor {
	x := &actor{name: name}
	dev, err := s.w.Device(cfg)
	require.NoError(s.t, err)
	ratio := 1.0
	if a, ok := d.Arg("ratio"); ok {
		ratio, err = strconv.ParseFloat(a.Vals[0], 64)
		require.NoError(s.t, err)
	}
	x.fab, err = efa.Open(efa.Config{Device: dev, Telemetry: efa.Telemetry{
		TracerProvider: s.spans.Provider(), Ratio: ratio, Slow: time.Duration(num(d, "slow")) * time.Microsecond,
	}})
	require.NoError(s.t, err)
	x.dom, err = x.fab.OpenDomain(efa.DomainConfig{})
	require.NoError(s.t, err)
	x.av = x.dom.NewAddressVector()
	connid := map[string]uint32{"a": 0xaaaa, "b": 0xbbbb}[name]
	ec := efa.EndpointConfig{
		AV: x.av,
		Protocol: efa.ProtocolConfig{
			MaxMedium: num(d, "medium"), Credits: num(d, "credits"), RuntSize: num(d, "runt"), MinRead: num(d, "minread"),
			MinReadWrite: num(d, "minwrite"), ReadSegment: num(d, "segment"), SendQueue: num(d, "sq"), RNRRetry: -1,
		},
	}
	efatest.KnobsOf(&ec.Protocol).ConnID = connid
	x.ep, err = x.dom.NewEndpoint(ec)
	require.NoError(s.t, err)
	require.NoError(s.t, x.ep.Enable(context.Background()))
	x.mem, err = x.dom.Alloc(stageMemory, efa.AccessSend|efa.AccessRecv|efa.AccessRemoteRead|efa.AccessRemoteWrite)
	require.NoError(s.t, err)
	return x
}

func (s *spanStage) insert(x, other *actor) efa.Addr {
	h, err := x.av.Insert(other.ep.Address())
	require.NoError(s.t, err)
	return h
}

// buffer is n bytes of memory of the argument's kind.
func (x *actor) buffer(d *datadriven.TestData, arg string, n int) []byte {
	if a, ok := d.Arg(arg); ok && a.Vals[0] == "mem" {
		return x.mem.Bytes()[:n]
	}
	return make([]byte, n)
}

func options(d *datadriven.TestData) (opts []efa.OpOption) {
	if a, ok := d.Arg("level"); ok && a.Vals[0] == "delivered" {
		opts = append(opts, efa.Complete(efa.Delivered))
	}
	if d.HasArg("data") {
		opts = append(opts, efa.Data(7))
	}
	return opts
}

func (s *spanStage) message(d *datadriven.TestData) {
	n := num(d, "len")
	room, tag := n, uint64(num(d, "tag"))
	if d.HasArg("small") {
		room = num(d, "small")
	}
	s.w.Go("sender", func(ctx context.Context) error {
		if !d.HasArg("late") {
			if err := s.w.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		p := s.a.buffer(d, "from", n)
		if d.HasArg("tag") {
			return s.a.ep.SendTag(ctx, s.a.peer, tag, p, options(d)...)
		}
		return s.a.ep.Send(ctx, s.a.peer, p, options(d)...)
	})
	s.w.Go("receiver", func(ctx context.Context) (err error) {
		if d.HasArg("late") {
			if err := s.w.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		p := s.b.buffer(d, "to", room)
		if d.HasArg("tag") {
			_, err = s.b.ep.RecvTag(ctx, efa.Match{Tag: tag}, p)
		} else {
			_, err = s.b.ep.Recv(ctx, p)
		}
		if room < n && errors.Is(err, efa.ErrTruncated) {
			return nil
		}
		return err
	})
}

func (s *spanStage) access(d *datadriven.TestData) {
	a, at, n := s.a, s.b.mem.Remote(), num(d, "len")
	s.w.Go("requester", func(ctx context.Context) (err error) {
		switch d.Cmd {
		case "write":
			return a.ep.Memory(a.peer, at).Write(ctx, a.buffer(d, "from", n), options(d)...)
		case "read":
			return a.ep.Memory(a.peer, at).Read(ctx, a.buffer(d, "to", n))
		case "add":
			return efa.NewCell[uint64](a.ep.Memory(a.peer, at)).Add(ctx, uint64(1), options(d)...)
		case "fetch":
			_, err = efa.NewCell[uint64](a.ep.Memory(a.peer, at)).FetchAdd(ctx, uint64(1))
		default:
			_, err = efa.NewCell[uint64](a.ep.Memory(a.peer, at)).CompareSwap(ctx, uint64(1), 2)
		}
		return err
	})
	require.NoError(s.t, s.w.Run(), d.Pos)
}

// told runs everything to its end and returns the spans.
func (s *spanStage) told() string {
	s.w.Go("end", func(context.Context) error { return s.w.Sleep(10 * time.Millisecond) })
	require.NoError(s.t, s.w.Run())
	s.a.fab.FlushTelemetry()
	s.b.fab.FlushTelemetry()
	list := s.spans.Take()
	require.Empty(s.t, spans.Check(list))
	ops := slices.DeleteFunc(slices.Clone(list), func(x sdk.ReadOnlySpan) bool { return x.Name() == "handshake" })
	return spans.Text(ops, func(connid string) string { return connid[7:] })
}

func (s *spanStage) close() {
	if s.a == nil {
		return
	}
	for _, x := range []*actor{s.a, s.b} {
		require.NoError(s.t, x.ep.Close())
		require.NoError(s.t, x.mem.Close())
		require.NoError(s.t, x.dom.Close())
		require.NoError(s.t, x.fab.Close())
	}
}

// TestSampledPairs: with a Ratio the spans of both sides are there, or neither.
func TestSampledPairs(t *testing.T) {
	s := &spanStage{t: t}
	s.open(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "ratio", Vals: []string{"0.3"}}}})
	const n = 300
	s.w.Go("sender", func(ctx context.Context) error {
		for i := range n {
			if err := s.a.ep.Send(ctx, s.a.peer, make([]byte, 10*i)); err != nil {
				return err
			}
		}
		return nil
	})
	s.w.Go("receiver", func(ctx context.Context) error {
		for range n {
			if _, err := s.b.ep.Recv(ctx, make([]byte, 10*n)); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, s.w.Run())
	s.close()
	sides := map[string]map[string]bool{}
	for _, x := range s.spans.Take() {
		if key := spans.Get(x.Attributes(), "efa.message.key"); key != "" {
			if sides[key] == nil {
				sides[key] = map[string]bool{}
			}
			sides[key][x.Name()] = true
		}
	}
	require.InDelta(t, 0.3*n, len(sides), 0.1*n)
	for key, names := range sides {
		require.Equal(t, map[string]bool{"send": true, "receive": true}, names, key)
	}
}
