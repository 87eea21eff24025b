package telemetry_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// BenchmarkCollector reads the records of an eager message on both sides, which is the
// work of a Fabric's goroutine for each: sampled or not. "records" is the part of the
// shards.
func BenchmarkCollector(b *testing.B) {
	for _, x := range []struct {
		name  string
		ratio float64
	}{{"all", 1}, {"thousandth", 0.001}, {"none", -1}} {
		b.Run("sampled="+x.name, func(b *testing.B) {
			c, err := telemetry.New(telemetry.Config{
				TracerProvider: sdk.NewTracerProvider(), Ratio: x.ratio, Inline: true, Records: 1 << 16,
			})
			require.NoError(b, err)
			var now clock.Manual
			l := c.Open(telemetry.Endpoint{Now: now.Now}).Log()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				leaveEager(l, uint32(i))
				if i%256 == 0 {
					l.Flush()
					c.Drain()
				}
			}
		})
	}
	b.Run("records", func(b *testing.B) {
		c, err := telemetry.New(telemetry.Config{TracerProvider: sdk.NewTracerProvider(), Inline: true, Records: 1 << 16})
		require.NoError(b, err)
		var now clock.Manual
		l := c.Open(telemetry.Endpoint{Now: now.Now}).Log()
		for i := 0; b.Loop(); i++ {
			leaveEager(l, uint32(i)) // a full ring costs as much
		}
	})
}

// leaveEager leaves the records of a message that is sent and received.
func leaveEager(l *trail.Log, id uint32) {
	send, recv, msg := l.Next(), l.Next(), l.Next()
	l.Put(recv, trail.Begin, uint8(trail.Receive), 8, 0)
	l.Put(send, trail.Begin, uint8(trail.Send), 8, 0)
	l.Put(send, trail.With, 0, 1, 0)
	l.Put(send, trail.Chosen, uint8(ope.Eager), trail.Connids(own, other), id)
	l.Put(send, trail.Sent, uint8(wire.TypeEagerMsgRTM), 8, 1)
	l.Put(send, trail.Acked, 0, 8, 0)
	l.Outcome(send, trail.Told, 8, nil)
	l.Outcome(send, trail.End, 8, nil)
	l.Put(msg, trail.Begin, uint8(trail.Message), 8, 0)
	l.Put(msg, trail.With, 0, 1, 0)
	l.Put(msg, trail.Chosen, uint8(ope.Eager), trail.Connids(own, other), id)
	l.Put(recv, trail.Matched, 0, msg, 0)
	l.Put(recv, trail.Received, uint8(wire.TypeEagerMsgRTM), 8, 1)
	l.Outcome(recv, trail.Told, 8, nil)
	l.Outcome(recv, trail.End, 8, nil)
}
