package efa_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

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
