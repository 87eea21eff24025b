package efa_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/internal/spans"
)

// observed makes two endpoints on one fabric that tell what they do.
func observed(t testing.TB, tele efa.Telemetry, mode efa.Progress) (fab *efa.Fabric, a, b *side) {
	t.Helper()
	f := newFabric(t, sim.Config{InOrder: true})
	fab, err := efa.Open(efa.Config{Device: newDevice(t, f), Telemetry: tele})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fab.Close()) })
	dom, err := fab.OpenDomain(efa.DomainConfig{Progress: mode})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dom.Close()) })
	a = newEndpoint(t, dom, efa.EndpointConfig{SendQueue: newQueue(t, dom, 64)})
	b = newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: newQueue(t, dom, 64)})
	introduce(t, a, b)
	return fab, a, b
}

// TestSpanOfClosedPeer: an endpoint that closes is no failure of its peer's.
func TestSpanOfClosedPeer(t *testing.T) {
	var log spans.Log
	device := closers["sim"](t)
	fab, err := efa.Open(efa.Config{Device: device(), Telemetry: efa.Telemetry{TracerProvider: log.Provider()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fab.Close()) })
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dom.Close()) })
	a := newEndpoint(t, dom, efa.EndpointConfig{Protocol: unhurried})
	b := newEndpoint(t, domainOn(t, device(), efa.DomainConfig{}), efa.EndpointConfig{})
	introduce(t, a, b)
	ctx := testContext(t)
	require.NoError(t, a.ep.Send(ctx, a.peer, []byte("x")))
	require.NoError(t, b.ep.Close())
	ev, err := a.ep.NextEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, efa.PeerClosed, ev.Kind, "%v", ev.Err)
	require.NoError(t, a.ep.Close())
	fab.FlushTelemetry()
	peers := 0
	for _, s := range log.Take() {
		if s.Name() == "peer" {
			peers++
			assert.Equal(t, codes.Unset, s.Status().Code, s.Status().Description)
		}
	}
	assert.Equal(t, 1, peers)
}

// TestTelemetryModes: in every progress mode the spans of all messages are there when
// the endpoints are closed, both sides of each in one trace.
func TestTelemetryModes(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			var log spans.Log
			_, a, b := observed(t, efa.Telemetry{TracerProvider: log.Provider(), Records: 1 << 16}, mode)
			ctx := testContext(t)
			const n = 300
			errs := make(chan error, 1)
			go func() {
				var err error
				for i := range n {
					err = errors.Join(err, a.ep.Send(ctx, a.peer, make([]byte, 100*i)))
				}
				errs <- err
			}()
			buf := make([]byte, 100*n)
			for range n {
				_, err := b.ep.Recv(ctx, buf)
				require.NoError(t, err)
			}
			require.NoError(t, <-errs)
			require.NoError(t, a.ep.Close())
			require.NoError(t, b.ep.Close())
			list := log.Take()
			require.Empty(t, spans.Check(list))
			count := map[string]int{}
			for _, s := range list {
				count[s.Name()]++
				require.Empty(t, spans.Get(s.Attributes(), "efa.incomplete"), s.Name())
				if s.Name() == "send" {
					require.False(t, s.EndTime().Before(s.StartTime()), "a turn at least, on a device that answers at once")
				}
			}
			assert.Equal(t, map[string]int{"send": n, "receive": n, "peer": 2, "handshake": 2, "endpoint": 2}, count)
		})
	}
}

// TestTelemetryOff: without a provider nobody looks.
func TestTelemetryOff(t *testing.T) {
	fab, a, b := observed(t, efa.Telemetry{Ratio: 0.5, Slow: time.Second}, efa.ProgressAuto)
	marker(t, a, b)
	fab.FlushTelemetry()
}

func TestTelemetryConfig(t *testing.T) {
	for _, bad := range []efa.Telemetry{{Ratio: 1.5}, {Ratio: math.NaN()}, {Slow: -1}, {Records: -1}} {
		_, err := efa.Open(efa.Config{DeviceName: "sim", Telemetry: bad})
		require.ErrorIs(t, err, efa.ErrInvalid, "%+v", bad)
	}
}

// TestParentSpan: an operation is part of the span of a blocking call's context, or of a
// request's Parent.
func TestParentSpan(t *testing.T) {
	var log spans.Log
	provider := log.Provider()
	fab, a, b := observed(t, efa.Telemetry{TracerProvider: provider}, efa.ProgressAuto)
	mem := alloc(t, b, 4096, remote)
	ctx, root := provider.Tracer("test").Start(testContext(t), "root")
	sc := trace.SpanContextFromContext(ctx)
	buf := make([]byte, 8)

	op, err := b.ep.Start(&efa.RecvReq{Buf: make([]byte, 8), Parent: sc})
	require.NoError(t, err)
	_, err = a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Parent: sc})
	require.NoError(t, err)
	done(t, op)
	require.NoError(t, next(t, a).Err)
	op, err = b.ep.Start(&efa.RecvReq{Buf: make([]byte, 8)}) // this one has none
	require.NoError(t, err)
	require.NoError(t, a.ep.Send(ctx, a.peer, buf, efa.Inject))
	done(t, op)
	require.NoError(t, a.ep.Memory(a.peer, mem.Remote()).Write(ctx, buf, efa.Complete(efa.Delivered)))
	require.NoError(t, a.ep.Memory(a.peer, mem.Remote()).Read(ctx, buf))
	_, err = efa.NewCell[uint64](a.ep.Memory(a.peer, mem.Remote())).FetchAdd(ctx, uint64(1))
	require.NoError(t, err)
	operand, u64 := efa.Elements([]uint64{1})
	for _, r := range []efa.Request{
		&efa.WriteReq{To: a.peer, At: mem.Remote(), Buf: buf, Parent: sc},
		&efa.ReadReq{From: a.peer, At: mem.Remote(), Buf: buf, Parent: sc},
		&efa.AtomicReq{To: a.peer, At: mem.Remote(), Op: amo.Sum, Type: u64, Operand: operand, Parent: sc},
	} {
		op, err := a.ep.Start(r)
		require.NoError(t, err)
		done(t, op)
	}
	root.End()
	require.NoError(t, a.ep.Close())
	require.NoError(t, b.ep.Close())
	fab.FlushTelemetry()

	got := map[string]int{}
	for _, s := range log.Take() {
		if s.SpanKind() != trace.SpanKindClient {
			continue
		}
		switch own := s.Parent().SpanID() == sc.SpanID(); {
		case own:
			require.Equal(t, sc.TraceID(), s.SpanContext().TraceID())
			got["own "+s.Name()]++
			links := 0
			if spans.Get(s.Attributes(), "efa.message.key") != "" {
				links = 1
			}
			require.Len(t, s.Links(), links)
		default:
			got["other "+s.Name()]++
		}
	}
	require.Equal(t, map[string]int{
		"own send": 2, "own receive": 1, "other receive": 1, "own write": 2, "own read": 2, "own atomic": 2,
	}, got)
}

// TestTracedAllocations: to leave records costs no allocation, and to follow operations
// that are not sampled neither.
func TestTracedAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	_, a, b := observed(t, efa.Telemetry{TracerProvider: noop.NewTracerProvider(), Ratio: -1}, efa.ProgressManual)
	send, recv := efa.SendReq{To: a.peer, Buf: make([]byte, 8)}, efa.RecvReq{Buf: make([]byte, 8)}
	var cs [1]efa.Completion
	one := func() {
		_, err := b.ep.PostRecv(&recv)
		require.NoError(t, err)
		_, err = a.ep.PostSend(&send)
		require.NoError(t, err)
		for _, q := range []*efa.Queue{a.ep.SendQueue(), b.ep.RecvQueue()} {
			_, err := q.Read(context.Background(), cs[:])
			require.NoError(t, err)
		}
	}
	for range 1000 {
		one()
	}
	require.Less(t, fewestAllocs(1000, one), 0.5)
}

// metricsOf collects once, and gives counters and levels by name and attributes.
func metricsOf(t *testing.T, r *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, r.Collect(testContext(t), &rm))
	got := map[string]int64{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					p.Attributes, _ = p.Attributes.Filter(func(kv attribute.KeyValue) bool {
						return !strings.HasPrefix(string(kv.Key), "efa.device") && kv.Key != "messaging.system"
					})
					got[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					got[m.Name] += int64(p.Count)
				}
			}
		}
	}
	return got
}

// TestMetrics: counters go on when endpoints are closed, levels do not.
func TestMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	fab, a, b := observed(t, efa.Telemetry{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}, efa.ProgressAuto)
	ctx := testContext(t)
	mem := alloc(t, b, 4096, remote)
	for i := range 10 {
		op := start(t, b, &efa.RecvReq{Buf: make([]byte, 50_000)})
		require.NoError(t, a.ep.Send(ctx, a.peer, make([]byte, 5000*i)))
		done(t, op)
	}
	require.NoError(t, a.ep.Memory(a.peer, mem.Remote()).Write(ctx, make([]byte, 100), efa.Complete(efa.Delivered)))
	late := start(t, b, &efa.RecvReq{Buf: make([]byte, 8)})
	fab.FlushTelemetry()
	got := metricsOf(t, reader)
	for name, want := range map[string]int64{
		"messaging.client.sent.messages messaging.operation.name=send":        10,
		"messaging.client.consumed.messages messaging.operation.name=receive": 10,
		"efa.operation.bytes messaging.operation.name=send":                   225_000,
		"efa.operation.bytes messaging.operation.name=receive":                225_000,
		"efa.operations efa.outcome=ok,messaging.operation.name=write":        1,
		"efa.protocols efa.direction=sent,efa.protocol=eager":                 2,
		"efa.protocols efa.direction=received,efa.protocol=eager":             2,
		"efa.protocols efa.direction=sent,efa.protocol=medium":                8,
		"efa.protocols efa.direction=received,efa.protocol=DC eager write":    1,
		"efa.handshakes efa.direction=sent":                                   2,
		"efa.handshakes efa.direction=received":                               2,
		"efa.queue.depth efa.queue=posted":                                    1,
		"efa.queue.depth efa.queue=completion":                                0,
		"efa.queue.capacity efa.queue=tx":                                     2 * int64(a.ep.Config().TxDepth),
		"efa.queue.capacity efa.queue=rx":                                     2 * int64(a.ep.Config().RxDepth),
		"efa.unexpected.limit ":                                               2 * a.ep.Config().Protocol.TotalMemory,
		"efa.regions ":                                                        1,
		"efa.registrations ":                                                  1,
		"efa.endpoints ":                                                      2,
		"efa.peers ":                                                          2,
		"efa.telemetry.lost ":                                                 0,
		"messaging.client.operation.duration":                                 21,
	} {
		assert.Equal(t, want, got[name], name)
	}
	require.NoError(t, b.ep.Close())
	_, err := late.Wait(context.Background())
	require.ErrorIs(t, err, efa.ErrClosed)
	require.NoError(t, a.ep.Close())
	after := metricsOf(t, reader)
	assert.Equal(t, int64(1), after["efa.errors error.type=FI_ESHUTDOWN"])
	assert.Equal(t, int64(22), after["messaging.client.operation.duration"])
	assert.Zero(t, after["efa.endpoints "])
	assert.Zero(t, after["efa.queue.depth efa.queue=posted"])
	for name, n := range got {
		switch {
		case strings.HasPrefix(name, "efa.queue.capacity"), name == "efa.unexpected.limit ":
			assert.Zero(t, after[name], name)
			continue
		}
		switch name {
		case "efa.endpoints ", "efa.peers ", "efa.queue.depth efa.queue=posted", "efa.queue.depth efa.queue=send":
		default:
			assert.GreaterOrEqual(t, after[name], n, name)
		}
	}
}

// tracedEnv makes the test binary behave as the other process of TestJoinedSpans: the
// directory where the two meet.
const tracedEnv = "EFACTOR_TEST_TRACED_DIR"

func init() {
	if dir := os.Getenv(tracedEnv); dir != "" {
		if err := tracedChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// tracedSide is an endpoint on shm whose operations are traced.
type tracedSide struct {
	log  spans.Log
	fab  *efa.Fabric
	dom  *efa.Domain
	av   *efa.AddressVector
	ep   *efa.Endpoint
	dev  efa.Device
	mem  *efa.MemoryRegion
	peer efa.Addr
}

func openTraced(dir string) (*tracedSide, error) {
	s := &tracedSide{}
	var err error
	if s.dev, err = shm.Open(shm.Config{Dir: dir}); err != nil {
		return nil, err
	}
	if s.fab, err = efa.Open(efa.Config{Device: s.dev, Telemetry: efa.Telemetry{TracerProvider: s.log.Provider()}}); err != nil {
		return nil, err
	}
	if s.dom, err = s.fab.OpenDomain(efa.DomainConfig{}); err != nil {
		return nil, err
	}
	s.av = s.dom.NewAddressVector()
	// Without RDMA writes those to memory go by packets, where there is a key.
	if s.ep, err = s.dom.NewEndpoint(efa.EndpointConfig{AV: s.av, Protocol: efa.ProtocolConfig{NoRDMAWrite: true, MinRead: 256 << 10, MinReadWrite: 256 << 10}}); err != nil {
		return nil, err
	}
	if err = s.ep.Enable(context.Background()); err != nil {
		return nil, err
	}
	s.mem, err = s.dom.Alloc(1<<20, efa.AccessSend|efa.AccessRecv|efa.AccessRemoteRead|efa.AccessRemoteWrite)
	return s, err
}

// close ends the endpoint, and gives the spans of its operations.
func (s *tracedSide) close() ([]sdk.ReadOnlySpan, error) {
	for _, f := range []func() error{s.ep.Close, s.mem.Close, s.dom.Close, s.fab.Close, s.dev.Close} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	return s.log.Take(), nil
}

// tracedSizes go by every subprotocol of messages that shm has by default.
var tracedSizes = []int{0, 100, 30_000, 200_000, 1 << 20}

// tracedChild tells the parent its address and memory, receives what it sends and sends
// it back, and writes down its spans: name, kind, key, trace.
func tracedChild(dir string) error {
	ctx := context.Background()
	s, err := openTraced(dir)
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	a, err := efa.ParseAddress(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	if s.peer, err = s.av.Insert(a); err != nil {
		return err
	}
	fmt.Println(s.ep.Address())
	at, err := s.mem.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	if err := s.ep.Send(ctx, s.peer, at); err != nil {
		return err
	}
	for _, n := range tracedSizes {
		if _, err := s.ep.RecvTag(ctx, efa.AnyTag, s.mem.Bytes()[:n]); err != nil {
			return err
		}
		if err := s.ep.SendTag(ctx, s.peer, 1, s.mem.Bytes()[:n]); err != nil {
			return err
		}
	}
	if _, err := s.ep.Recv(ctx, nil); err != nil { // the parent is done
		return err
	}
	list, err := s.close()
	if err != nil {
		return err
	}
	if wrong := spans.Check(list); len(wrong) > 0 {
		return fmt.Errorf("spans: %s", strings.Join(wrong, "; "))
	}
	for _, x := range list {
		if key := spans.Get(x.Attributes(), "efa.message.key"); key != "" {
			fmt.Println(x.Name(), x.SpanKind(), key, x.SpanContext().TraceID(), x.SpanContext().SpanID())
		}
	}
	return nil
}

// opposite is what the other side of an operation is.
var opposite = map[string]string{
	"send client": "receive client", "receive client": "send client", "write client": "write server",
	"read client": "read server", "atomic client": "atomic server",
}

// TestJoinedSpans: the spans of two processes find each other, with nothing but the
// protocol between them.
func TestJoinedSpans(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	s, err := openTraced(dir)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), tracedEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(in, s.ep.Address().String()+"\n")
	require.NoError(t, err)
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	a, err := efa.ParseAddress(strings.TrimSpace(line))
	require.NoError(t, err)
	s.peer, err = s.av.Insert(a)
	require.NoError(t, err)

	ctx := testContext(t)
	var raw [efa.MaxRemote]byte
	m, err := s.ep.Recv(ctx, raw[:])
	require.NoError(t, err)
	var at efa.Remote
	require.NoError(t, at.UnmarshalBinary(raw[:m.N]))
	for i, n := range tracedSizes {
		level := efa.Complete([]efa.Level{efa.Transmitted, efa.Delivered}[i%2])
		require.NoError(t, s.ep.SendTag(ctx, s.peer, 1, s.mem.Bytes()[:n], level))
		_, err = s.ep.RecvTag(ctx, efa.AnyTag, s.mem.Bytes()[:n])
		require.NoError(t, err)
	}
	for _, n := range []int{10, 10_000, 1 << 20} {
		require.NoError(t, s.ep.Memory(s.peer, at).Write(ctx, s.mem.Bytes()[:n], efa.Complete(efa.Delivered)))
		require.NoError(t, s.ep.Memory(s.peer, at).Read(ctx, s.mem.Bytes()[:n]))
	}
	require.NoError(t, s.ep.Memory(s.peer, at).Write(ctx, s.mem.Bytes()[:10]), "of which the target knows nothing")
	require.NoError(t, efa.NewCell[uint64](s.ep.Memory(s.peer, at)).Add(ctx, uint64(1)))
	_, err = efa.NewCell[uint64](s.ep.Memory(s.peer, at)).FetchAdd(ctx, uint64(1))
	require.NoError(t, err)
	require.NoError(t, s.ep.Send(ctx, s.peer, nil))

	theirs := map[string][]string{} // by key
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		f := strings.Fields(line)
		theirs[f[2]] = append(theirs[f[2]], f[0]+" "+f[1], f[3], f[4])
	}
	require.NoError(t, cmd.Wait())
	list, err := s.close()
	require.NoError(t, err)
	require.Empty(t, spans.Check(list))
	joined := map[string]int{} // by protocol
	alone := map[string]int{}
	for _, x := range list {
		proto, key := spans.Get(x.Attributes(), "efa.protocol"), spans.Get(x.Attributes(), "efa.message.key")
		if key == "" {
			alone[proto]++
			continue
		}
		joined[proto]++
		require.Len(t, theirs[key], 3, "%s %s %s", x.Name(), proto, key)
		assert.Equal(t, opposite[x.Name()+" "+x.SpanKind().String()], theirs[key][0])
		assert.Equal(t, x.SpanContext().TraceID().String(), theirs[key][1])
		assert.NotEqual(t, x.SpanContext().SpanID().String(), theirs[key][2])
		delete(theirs, key)
	}
	assert.Empty(t, theirs, "what has no counterpart here")
	t.Logf("joined: %v, alone: %v", joined, alone)
	assert.Equal(t, 1, alone["eager write"])
	for _, proto := range []string{"eager", "medium", "long-CTS", "DC eager", "DC long-CTS", "DC eager write", "write atomic", "fetch atomic"} {
		assert.Positive(t, joined[proto], proto)
	}
}

// waits gives what the operations of an endpoint wait for, by their kind.
func waits(t *testing.T, ep *efa.Endpoint) map[string]string {
	t.Helper()
	s, err := ep.Snapshot(testContext(t))
	require.NoError(t, err)
	w := map[string]string{}
	for _, o := range s.Operations {
		w[o.Kind] = o.Waits
		require.GreaterOrEqual(t, o.Age, o.Still)
	}
	return w
}

// TestSnapshot: what is stuck says on what.
func TestSnapshot(t *testing.T) {
	a, b := lab{}.open(t)
	ctx := testContext(t)
	q := newQueue(t, a.dom, 16)
	s := newEndpoint(t, a.dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
	to, err := s.av.Insert(b.ep.Address())
	require.NoError(t, err)

	_, err = s.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 8)})
	require.NoError(t, err)
	_, err = s.ep.PostSend(&efa.SendReq{To: to, Buf: make([]byte, 1<<20), Tag: 42, Tagged: true})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return waits(t, b.ep)["unexpected message"] != "" && waits(t, s.ep)["send"] == "CTS"
	}, time.Minute, time.Millisecond)
	require.Equal(t, "a message that matches", waits(t, s.ep)["receive"])
	require.Equal(t, "a receive that matches", waits(t, b.ep)["unexpected message"])

	snap, err := b.ep.Snapshot(ctx)
	require.NoError(t, err)
	require.Len(t, snap.Peers, 1)
	require.Equal(t, "ready", snap.Peers[0].State)
	require.Equal(t, "both", snap.Peers[0].Handshake)
	require.Equal(t, 1, snap.Peers[0].Operations)
	require.Equal(t, 1, snap.Queues.Unexpected)
	op := snap.Operations[0]
	require.Equal(t, uint64(42), *op.Tag)
	require.Equal(t, uint64(1<<20), op.Bytes)
	require.Equal(t, snap.Peers[0].Address, op.Peer)
	text, err := json.Marshal(snap)
	require.NoError(t, err)
	var back efa.Snapshot
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, snap.Operations, back.Operations)

	_, err = b.ep.RecvTag(ctx, efa.Match{Tag: 42}, make([]byte, 1<<20))
	require.NoError(t, err)
	// The receiver may be done before the sender has polled the completions of its last packets.
	require.Eventually(t, func() bool { return waits(t, s.ep)["send"] == "" }, time.Minute, time.Millisecond)
}

// TestSettings: every setting is listed, with its type, its default and what is in force.
func TestSettings(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	s := newEndpoint(t, dom, efa.EndpointConfig{Protocol: efa.ProtocolConfig{Credits: 77, PeerTimeout: time.Minute, NoRDMARead: true}})
	got := map[string]efa.Setting{}
	for _, x := range s.ep.Settings() {
		require.NotContains(t, got, x.Name)
		require.Equal(t, x.Type, reflect.TypeOf(x.Default).String())
		require.Equal(t, x.Type, reflect.TypeOf(x.Value).String())
		got[x.Name] = x
	}
	exported := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[efa.ProtocolConfig]()) {
		if f.IsExported() {
			exported++
			require.Contains(t, got, f.Name)
		}
	}
	require.Len(t, got, exported)
	require.Equal(t, efa.Setting{Name: "Credits", EFA: "FI_EFA_TX_MIN_CREDITS", Type: "int", Default: 32, Value: 77}, got["Credits"])
	require.Equal(t, efa.Setting{Name: "PeerTimeout", Type: "time.Duration", Default: 10 * time.Second, Value: time.Minute}, got["PeerTimeout"])
	require.Equal(t, []any{false, true}, []any{got["NoRDMARead"].Default, got["NoRDMARead"].Value})
	require.Equal(t, []any{8, 8}, []any{got["Refill"].Default, got["Refill"].Value})
}
