package efa_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// telemetries are what BenchmarkEager runs with: nothing; records that become spans of
// all messages, or of one in a thousand; metrics alone.
var telemetries = []struct {
	name string
	make func() efa.Telemetry
}{
	{"off", func() efa.Telemetry { return efa.Telemetry{} }},
	{"on", func() efa.Telemetry { return efa.Telemetry{TracerProvider: sdktrace.NewTracerProvider()} }},
	{"sampled", func() efa.Telemetry {
		return efa.Telemetry{TracerProvider: sdktrace.NewTracerProvider(), Ratio: 0.001}
	}},
	{"metrics", func() efa.Telemetry {
		return efa.Telemetry{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))}
	}},
}

// BenchmarkEager sends and receives one message per iteration, both endpoints on
// one shard that the benchmark's goroutine runs. Queued, every message between actors goes
// through the shard's ring, where otherwise none does.
func BenchmarkEager(b *testing.B) {
	for _, t := range telemetries {
		for _, size := range []int{8, 4096} {
			if size != 8 && t.name != "off" {
				continue
			}
			b.Run(fmt.Sprintf("trace=%s/size=%d", t.name, size), func(b *testing.B) {
				dev := newDevice(b, newFabric(b, sim.Config{InOrder: true}))
				benchmarkEager(b, dev, size, t.make(), false)
			})
		}
	}
	b.Run("queued/size=8", func(b *testing.B) {
		benchmarkEager(b, newDevice(b, newFabric(b, sim.Config{InOrder: true})), 8, efa.Telemetry{}, true)
	})
}

func benchmarkEager(b *testing.B, dev efa.Device, size int, t efa.Telemetry, queued bool) {
	fab, err := efa.Open(efa.Config{Device: dev, Telemetry: t})
	require.NoError(b, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{Progress: efa.ProgressManual})
	require.NoError(b, err)
	if queued {
		dom.QueueAll()
	}
	q, err := dom.NewQueue(64)
	require.NoError(b, err)
	av := dom.NewAddressVector()
	cfg := efa.EndpointConfig{AV: av, SendQueue: q, RecvQueue: q}
	x, err := dom.NewEndpoint(cfg)
	require.NoError(b, err)
	y, err := dom.NewEndpoint(cfg)
	require.NoError(b, err)
	require.NoError(b, x.Enable(context.Background()))
	require.NoError(b, y.Enable(context.Background()))
	to, err := av.Insert(y.Address())
	require.NoError(b, err)
	src, dst := make([]byte, size), make([]byte, size)
	var cs [8]efa.Completion
	send := efa.SendReq{To: to, Buf: src}
	recv := efa.RecvReq{Buf: dst}
	one := func() {
		if _, err := y.PostRecv(&recv); err != nil {
			b.Fatal(err)
		}
		if _, err := x.PostSend(&send); err != nil {
			b.Fatal(err)
		}
		for n := 0; n < 2; {
			n += q.TryRead(cs[:])
		}
	}
	for range 100 {
		one()
	}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		one()
	}
	b.StopTimer()
	require.NoError(b, x.Close())
	require.NoError(b, y.Close())
	require.NoError(b, dom.Close())
	require.NoError(b, fab.Close())
}
