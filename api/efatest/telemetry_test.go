package efatest_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/internal/spans"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// watch follows a run with everything that there is: a tap on every device, traces and
// metrics of every host. A nil watch does not look.
type watch struct {
	spans   spans.Log
	readers map[*efatest.Device]*sdkmetric.ManualReader
	tapped  map[string]uint64 // what taps have counted, by the names of metrics
	counted map[string]uint64 // what metrics say
}

func newWatch() *watch {
	return &watch{
		readers: map[*efatest.Device]*sdkmetric.ManualReader{}, tapped: map[string]uint64{}, counted: map[string]uint64{},
	}
}

// config is how to open a fabric on a device.
func (w *watch) config(h *host) efa.Config {
	dev := h.dev
	if w == nil {
		return efa.Config{Device: h.whole}
	}
	w.readers[dev] = sdkmetric.NewManualReader()
	return efa.Config{
		Device: tap.Wrap(h.whole, &counts{dev: dev, n: w.tapped}),
		Telemetry: efa.Telemetry{
			TracerProvider: w.spans.Provider(),
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.readers[dev])),
		},
	}
}

// counts is a tap's sink.
type counts struct {
	dev *efatest.Device
	n   map[string]uint64
}

func (c *counts) Now() clock.Time { return c.dev.Clock().Now() }

func (c *counts) Packet(r tap.Record) {
	add := func(name string) {
		c.n["efa."+name+"_wrs"]++
		c.n["efa."+name+"_bytes"] += uint64(r.Len)
	}
	switch {
	case r.Own: // not counted
	case r.Kind == device.WRRead:
		add("rdma_read")
	case r.Kind == device.WRWrite && r.Out:
		add("rdma_write")
	case r.Kind == device.WRWrite: // counted where it came from
	case r.Out:
		add("send")
		c.n[fmt.Sprintf("efa.packets efa.direction=sent,efa.packet.type=%s", wire.Type(r.Packet[0]))]++
	default:
		add("recv")
		c.n[fmt.Sprintf("efa.packets efa.direction=received,efa.packet.type=%s", wire.Type(r.Packet[0]))]++
	}
}

// collect takes the metrics of a host whose endpoints are closed.
func (w *watch) collect(dev *efatest.Device) error {
	if w == nil {
		return nil
	}
	var rm metricdata.ResourceMetrics
	if err := w.readers[dev].Collect(context.Background(), &rm); err != nil {
		return err
	}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					set, _ := p.Attributes.Filter(func(kv attribute.KeyValue) bool {
						return kv.Key != "efa.device" && kv.Key != "efa.device.kind" && kv.Key != "messaging.system"
					})
					name := m.Name
					if set.Len() > 0 {
						name += " " + set.Encoded(attribute.DefaultEncoder())
					}
					w.counted[name] += uint64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					w.counted[m.Name] += p.Count
				}
			}
		}
	}
	return nil
}

// TestWatchedSeeds runs seeds with telemetry: the metrics agree with the taps' counts,
// every operation has a span, and pairs are in one trace.
func TestWatchedSeeds(t *testing.T) {
	total := map[string]uint64{}
	for seed := uint64(1); seed <= uint64(less(watchedSeeds)); seed++ {
		p := newPlan(seed)
		p.watch = newWatch()
		_, err := playPlan(p, nil)
		require.NoError(t, err, "seed %#x", seed)
		w := p.watch
		for name, n := range w.tapped {
			if strings.HasPrefix(name, receivedPackets) {
				continue
			}
			assert.Equal(t, n, w.counted[name], "seed %#x: %s", seed, name)
		}
		w.checkReceived(t, seed, p.flavor)
		w.checkSpans(t, seed)
		for name, n := range w.counted {
			total[name] += n
		}
	}
	for _, name := range []string{"efa.reorder.depth", "efa.unexpected.bytes", "efa.endpoints", "efa.telemetry.lost"} {
		assert.Zero(t, total[name], name)
	}
	if testenv.Short() {
		return // so few do not have everything
	}
	for _, name := range []string{
		"efa.send_wrs", "efa.recv_bytes", "efa.rdma_read_wrs", "efa.rdma_write_bytes", "efa.retrans_pkts", "efa.rnr",
		"efa.packets efa.direction=sent,efa.packet.type=CTSDATA", "efa.impaired_remote_conn_events", "efa.reorder.packets",
		"efa.operations efa.outcome=failed,messaging.operation.name=send", "efa.errors error.type=FI_ECANCELED",
		"efa.unexpected.messages", "efa.registrations",
	} {
		assert.Positive(t, total[name], "%s in %d seeds", name, watchedSeeds)
	}
}

// TestWatchingChangesNothing: a seed runs the same way, packet for packet, with and
// without telemetry.
func TestWatchingChangesNothing(t *testing.T) {
	for seed := uint64(1); seed <= uint64(less(replaySeeds)); seed++ {
		var logs [2]bytes.Buffer
		for i := range logs {
			p := newPlan(seed)
			if i > 0 {
				p.watch = newWatch()
			}
			_, err := playPlan(p, &logs[i])
			require.NoError(t, err, "seed %#x", seed)
		}
		require.True(t, bytes.Equal(logs[0].Bytes(), logs[1].Bytes()), "seed %#x", seed)
	}
}

const receivedPackets = "efa.packets efa.direction=received,"

// checkReceived: a packet that was received is counted by its type, unless it was dropped
// before that was read.
func (w *watch) checkReceived(t *testing.T, seed uint64, f flavor) {
	t.Helper()
	missing, drops := uint64(0), uint64(0)
	for _, reason := range []string{"short", "type", "version", "connid", "no_address", "peer_down"} {
		drops += w.counted["efa.rx_drops efa.reason="+reason]
	}
	for name, n := range w.tapped {
		if strings.HasPrefix(name, receivedPackets) {
			require.LessOrEqual(t, w.counted[name], n, "seed %#x: %s", seed, name)
			missing += n - w.counted[name]
		}
	}
	if f == calm {
		assert.Equal(t, drops, missing, "seed %#x: packets that are not counted by type", seed)
	}
}

// checkSpans: one span of the application's side for each operation that is counted.
func (w *watch) checkSpans(t *testing.T, seed uint64) {
	t.Helper()
	list := w.spans.Take()
	require.Empty(t, spans.Check(list), "seed %#x", seed)
	ops := map[string]uint64{}
	for _, s := range list {
		if s.SpanKind() == trace.SpanKindClient {
			ops[s.Name()]++
		}
	}
	want, all := map[string]uint64{}, uint64(0)
	for _, name := range []string{"send", "receive", "write", "read", "atomic"} {
		for _, outcome := range []string{"ok", "failed"} {
			n := w.counted["efa.operations efa.outcome="+outcome+",messaging.operation.name="+name]
			want[name] += n
			all += n
		}
		if want[name] == 0 {
			delete(want, name)
		}
	}
	if !maps.Equal(want, ops) {
		t.Errorf("seed %#x: %v spans for %v operations", seed, ops, want)
	}
	assert.Equal(t, all, w.counted["messaging.client.operation.duration"], "seed %#x", seed)
}
