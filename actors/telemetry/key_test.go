package telemetry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/actors/trail"
)

// TestKeySpanContext: the ids are what docs/telemetry.md says, for ever: peers of another
// version derive the same.
func TestKeySpanContext(t *testing.T) {
	k := telemetry.Key{Requester: 0x12345678, Responder: 0x0badcafe, Kind: trail.MsgID, ID: 42}
	sc := k.SpanContext()
	assert.Equal(t, "12345678:0badcafe:msg_id:42", k.String())
	assert.Equal(t, "11c65819ef355ce4256e513793bde035", sc.TraceID().String())
	assert.Equal(t, "13dd311d631144ee", sc.SpanID().String())
	assert.True(t, sc.IsSampled())
	assert.True(t, sc.IsRemote())

	seen := map[trace.TraceID]telemetry.Key{}
	for id := range uint32(10_000) {
		for _, kind := range []trail.KeyKind{trail.MsgID, trail.SendID, trail.RecvID} {
			for _, k := range []telemetry.Key{{1, 2, kind, id}, {2, 1, kind, id}, {1, 3, kind, id}} {
				sc := k.SpanContext()
				require.True(t, sc.IsValid())
				if was, twice := seen[sc.TraceID()]; twice {
					t.Fatalf("%v and %v have one trace", was, k)
				}
				seen[sc.TraceID()] = k
			}
		}
	}
}

// TestKeyKinds: operations of which both sides see packets have a key, and no others.
func TestKeyKinds(t *testing.T) {
	none := map[ope.Proto]bool{
		ope.ProtoNone: true, ope.Headerless: true, ope.EagerWrite: true, ope.DirectWrite: true, ope.DirectRead: true,
		ope.ReadResponse: true, ope.AtomicResponse: true, ope.ReceiptOnly: true, ope.ErrorOnly: true,
	}
	for p := range ope.NumProtos {
		assert.Equal(t, none[p], p.KeyKind() == trail.NoKey, "%s", p)
	}
}

// TestSamplingKeepsPairs: both sides of a message choose alike, and so does
// OpenTelemetry's own sampler with the same ratio.
func TestSamplingKeepsPairs(t *testing.T) {
	const n, ratio = 4000, 0.25
	sender, receiver := newBench(t, telemetry.Config{Ratio: ratio}), newBench(t, telemetry.Config{Ratio: ratio})
	for id := range uint32(n) {
		sender.send(id, us, nil)
		// The other side's view: what it receives came from the first one.
		msg := receiver.log.Next()
		span := receiver.begin(trail.Receive, 0)
		receiver.log.Put(msg, trail.Begin, uint8(trail.Message), 100, 0)
		receiver.log.Put(msg, trail.Chosen, uint8(ope.Eager), trail.Connids(own, other), id)
		receiver.log.Put(span, trail.Matched, 0, msg, 0)
		receiver.end(span, nil)
		sender.log.Flush()
		receiver.log.Flush()
	}
	sent, got := sender.take(), receiver.take()
	require.ElementsMatch(t, keys(sent), keys(got))
	assert.InDelta(t, ratio*n, len(sent), 0.1*ratio*n)
	sampler := sdk.TraceIDRatioBased(ratio)
	for _, s := range sent {
		d := sampler.ShouldSample(sdk.SamplingParameters{ParentContext: t.Context(), TraceID: s.SpanContext().TraceID()})
		require.Equal(t, sdk.RecordAndSample, d.Decision)
	}

	all := newBench(t, telemetry.Config{Ratio: 1})
	none := newBench(t, telemetry.Config{Ratio: -1})
	for id := range uint32(10) {
		all.send(id, us, nil)
		none.send(id, us, nil)
	}
	require.Len(t, all.take(), 10)
	require.Empty(t, none.take())
}
