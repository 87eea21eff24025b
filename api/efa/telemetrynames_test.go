//go:build linux

package efa_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/spans"
)

// TestSpansNamePeers: spans have the peer's name, handle and address as errors and the debug page
// have them, and tags in hexadecimal; of a peer that was removed they have what it was called.
func TestSpansNamePeers(t *testing.T) {
	var log spans.Log
	near, err := shm.Open(shm.Config{Dir: filepath.Join(t.TempDir(), "fabric")})
	require.NoError(t, err)
	dev, err := efa.JoinDevices(newDevice(t, newFabric(t, sim.Config{InOrder: true})), near)
	require.NoError(t, err)
	fab, err := efa.Open(efa.Config{Device: dev, Telemetry: efa.Telemetry{TracerProvider: log.Provider()}})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, dom.Close())
		require.NoError(t, fab.Close())
		require.NoError(t, dev.Close())
	})
	a, b := newEndpoint(t, dom, efa.EndpointConfig{Name: "storage"}), newEndpoint(t, dom, efa.EndpointConfig{})
	onShm, ok := b.ep.Address().Raw("shm")
	require.True(t, ok)
	introduce(t, a, b)
	only, err := a.av.InsertNamed(efa.NewAddress("shm", onShm), "the same by way of shm")
	require.NoError(t, err)
	require.NoError(t, a.av.SetName(a.peer, "rank 1 on node7"))
	ctx := testContext(t)
	exchange := func(to efa.Addr, tag uint64) {
		op := start(t, b, &efa.RecvReq{Buf: make([]byte, 8), Tagged: true, Tag: tag})
		require.NoError(t, a.ep.SendTag(ctx, to, tag, make([]byte, 8)))
		done(t, op)
	}
	take := func() (send, recv func(string) string) {
		fab.FlushTelemetry()
		for _, s := range log.Take() {
			get := func(key string) string {
				for _, kv := range s.Attributes() {
					if string(kv.Key) == key {
						return kv.Value.String()
					}
				}
				return ""
			}
			switch s.Name() {
			case "send":
				send = get
			case "receive":
				recv = get
			}
		}
		require.NotNil(t, send)
		require.NotNil(t, recv)
		return send, recv
	}
	first := func(a efa.Address) string { return strings.Split(a.String(), ";")[0] }

	exchange(a.peer, 0xABC)
	send, recv := take()
	require.Equal(t, "rank 1 on node7", send("efa.peer.name"))
	require.Equal(t, fmt.Sprint(uint64(a.peer)), send("efa.peer.handle"))
	require.Equal(t, first(b.ep.Address()), send("efa.peer.address"))
	require.Equal(t, "storage", send("efa.endpoint"))
	require.Equal(t, "0xabc", send("efa.message.tag"))
	require.Empty(t, recv("efa.peer.name"), "it has none")
	require.Empty(t, recv("efa.endpoint"))
	require.Equal(t, fmt.Sprint(uint64(b.peer)), recv("efa.peer.handle"))
	require.Equal(t, first(a.ep.Address()), recv("efa.peer.address"))
	require.Equal(t, "0xabc", recv("efa.message.tag"))

	require.NoError(t, a.av.SetName(a.peer, "bob"))
	exchange(only, 1)
	send, _ = take()
	require.Equal(t, "the same by way of shm", send("efa.peer.name"))
	require.Equal(t, efa.NewAddress("shm", onShm).String(), send("efa.peer.address"))
	exchange(a.peer, 2)
	send, _ = take()
	require.Equal(t, "bob", send("efa.peer.name"), "its name of now")

	exchange(a.peer, 3)
	require.NoError(t, a.av.Remove(ctx, a.peer))
	send, _ = take()
	require.Equal(t, "bob", send("efa.peer.name"), "it was that when it sent")
}

// series collects once, and gives each metric's values by kind of device and name of endpoint:
// "efa.send_bytes shm gradients".
func series(t *testing.T, r *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, r.Collect(testContext(t), &rm))
	got := map[string]int64{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					kind, ok := p.Attributes.Value("efa.device.kind")
					require.True(t, ok, "%s has no kind", m.Name)
					name, _ := p.Attributes.Value("efa.endpoint")
					got[strings.TrimSpace(fmt.Sprint(m.Name, " ", kind.AsString(), " ", name.AsString()))] += p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					kind, _ := p.Attributes.Value("efa.device.kind")
					name, _ := p.Attributes.Value("efa.endpoint")
					got[strings.TrimSpace(fmt.Sprint(m.Name, " ", kind.AsString(), " ", name.AsString()))] += int64(p.Count)
				}
			}
		}
	}
	return got
}

// TestMetricsLabels: endpoints of different devices or names have different series, and what
// an endpoint on two devices carried is counted by device.
func TestMetricsLabels(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	far := newFabric(t, sim.Config{InOrder: true})
	open := func(dev efa.Device) *efa.Domain {
		fab, err := efa.Open(efa.Config{Device: dev, Telemetry: efa.Telemetry{MeterProvider: provider}})
		require.NoError(t, err)
		dom, err := fab.OpenDomain(efa.DomainConfig{})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, dom.Close())
			require.NoError(t, fab.Close())
			require.NoError(t, dev.Close())
		})
		return dom
	}
	near, err := shm.Open(shm.Config{Dir: filepath.Join(t.TempDir(), "fabric")})
	require.NoError(t, err)
	both, err := efa.JoinDevices(near, newDevice(t, far))
	require.NoError(t, err)
	here, there := open(both), open(newDevice(t, far))
	a := newEndpoint(t, here, efa.EndpointConfig{Name: "gradients"})
	b := newEndpoint(t, here, efa.EndpointConfig{})
	c := newEndpoint(t, there, efa.EndpointConfig{Name: "gradients"})
	send := func(from, to *side, n int) {
		h, err := from.av.Insert(to.ep.Address())
		require.NoError(t, err)
		op := start(t, to, &efa.RecvReq{Buf: make([]byte, n)})
		require.NoError(t, from.ep.Send(testContext(t), h, make([]byte, n), efa.Complete(efa.Delivered)))
		done(t, op)
	}
	send(a, b, 2000)
	send(a, c, 5000)
	stats, err := a.ep.Stats(testContext(t))
	require.NoError(t, err)
	_, err = c.ep.Stats(testContext(t)) // after the turn that received, at whose end its records can be read
	require.NoError(t, err)

	here.Fabric().FlushTelemetry()
	there.Fabric().FlushTelemetry()
	got := series(t, reader)
	for name, least := range map[string]int64{
		"efa.send_bytes shm gradients": 2000,
		"efa.send_bytes sim gradients": 5000, // of a, and a little of c
		"efa.recv_bytes shm":           2000,
	} {
		assert.GreaterOrEqual(t, got[name], least, name)
		assert.Less(t, got[name], least+1000, name)
	}
	for name, want := range map[string]int64{
		"efa.operations shm,sim gradients":                      2,
		"efa.operations shm,sim":                                1,
		"efa.operations sim gradients":                          1,
		"messaging.client.operation.duration shm,sim gradients": 2,
		"messaging.client.operation.duration shm,sim":           1,
		"messaging.client.operation.duration sim gradients":     1,
		"efa.peers shm gradients":                               1,
		"efa.peers sim gradients":                               2, // c of a, a of c
		"efa.peers shm":                                         1,
		"efa.peers sim":                                         0,
		"efa.endpoints shm,sim gradients":                       1,
		"efa.endpoints shm,sim":                                 1,
		"efa.endpoints sim gradients":                           1,
		"efa.recv_bytes sim":                                    0,
		"efa.regions shm,sim":                                   0,
		"efa.regions sim":                                       0,
	} {
		v, ok := got[name]
		assert.True(t, ok, "there is no %s", name)
		assert.Equal(t, want, v, name)
	}
	cstats, err := c.ep.Stats(testContext(t))
	require.NoError(t, err)
	assert.EqualValues(t, stats["Queue.SendBytes"]+cstats["Queue.SendBytes"],
		got["efa.send_bytes shm gradients"]+got["efa.send_bytes sim gradients"], "the devices' sum is the queue's")
	assert.EqualValues(t, stats["Queue.RecvDone"]+cstats["Queue.RecvDone"],
		got["efa.recv_wrs shm gradients"]+got["efa.recv_wrs sim gradients"])

	require.NoError(t, a.ep.Close())
	after := series(t, reader)
	assert.GreaterOrEqual(t, after["efa.send_bytes shm gradients"], got["efa.send_bytes shm gradients"], "what was counted stays")
	assert.Zero(t, after["efa.peers shm gradients"])
	assert.Zero(t, after["efa.endpoints shm,sim gradients"])
	assert.Equal(t, int64(1), after["efa.endpoints shm,sim"])
}

func TestEndpointName(t *testing.T) {
	dom := domainOn(t, newDevice(t, newFabric(t, sim.Config{})), efa.DomainConfig{})
	for _, bad := range []string{strings.Repeat("x", 65), "a\nb", "\xff", "a\x00"} {
		_, err := dom.NewEndpoint(efa.EndpointConfig{Name: bad})
		require.ErrorIs(t, err, efa.ErrInvalid, "%q", bad)
	}
	e := newEndpoint(t, dom, efa.EndpointConfig{Name: "Größe 3"})
	require.Equal(t, "Größe 3", e.ep.Config().Name)
}
