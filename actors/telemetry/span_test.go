package telemetry_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/internal/spans"
)

func events(s sdk.ReadOnlySpan) string {
	var names []string
	for _, e := range s.Events() {
		names = append(names, strings.TrimPrefix(e.Name, "efa."))
	}
	return strings.Join(names, " ")
}

// TestFailedAndSlow: an operation that is not sampled has a span if it failed or took
// long, without intermediate events.
func TestFailedAndSlow(t *testing.T) {
	b := newBench(t, telemetry.Config{Ratio: -1, Slow: 100 * us})
	b.send(1, 99*us, nil)
	b.send(2, 100*us, nil)
	b.send(3, us, fmt.Errorf("%w: while sending", peer.ErrDied))
	b.recv(4)
	list := b.take()
	require.Len(t, list, 2)
	for i, want := range []string{"posted completed", "posted failed"} {
		s := list[i]
		assert.Equal(t, want, events(s))
		assert.Equal(t, "true", spans.Get(s.Attributes(), "efa.summary"))
		assert.Equal(t, "eager", spans.Get(s.Attributes(), "efa.protocol"))
	}
	assert.Equal(t, 100*us, list[0].EndTime().Sub(list[0].StartTime()))
	assert.Equal(t, codes.Error, list[1].Status().Code)
	assert.Equal(t, "peer failed: its process died: while sending", list[1].Status().Description)
	assert.Equal(t, "peer_died", spans.Get(list[1].Attributes(), "error.type"))
}

// TestSlowReceive: the time that a receive waits for its message does not count.
func TestSlowReceive(t *testing.T) {
	b := newBench(t, telemetry.Config{Ratio: -1, Slow: 100 * us})
	span := b.begin(trail.Receive, 0)
	b.clock.Advance(1000 * us)
	msg := b.begin(trail.Message, 1)
	b.log.Put(span, trail.Matched, 0, msg, 0)
	b.clock.Advance(10 * us)
	b.end(span, nil)
	require.Empty(t, b.take())

	msg = b.begin(trail.Message, 2)
	b.log.Put(msg, trail.Unexpected, 0, 0, 0)
	span = b.begin(trail.Receive, 0)
	b.log.Put(span, trail.Matched, 0, msg, 0)
	b.clock.Advance(200 * us)
	b.end(span, nil)
	require.Len(t, b.take(), 1)
}

// TestErrorTypes: every error has a type that can be counted by.
func TestErrorTypes(t *testing.T) {
	for want, err := range map[string]error{
		"peer_died":       peer.ErrDied,
		"peer_silent":     peer.ErrSilent,
		"peer_failed":     peer.ErrPeerFailed,
		"FI_ETRUNC":       &ope.Truncated{},
		"FI_ECANCELED":    errno.ErrCanceled,
		"region_closed":   ope.ErrRegionClosed,
		"FI_E999":         errno.Errno(999),
		"_OTHER":          errors.New("?"),
		"internal":        ope.ErrInternal,
		"peer_refused":    &peer.RemoteError{Err: peer.ErrRefused},
		"FI_EHOSTUNREACH": &peer.StatusError{Errno: errno.ErrHostUnreach},
	} {
		assert.Equal(t, want, ope.ErrorType(err))
	}
}

// app is a span of the application.
func app(flags trace.TraceFlags) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags})
}

// sendIn is a send that is part of the application's span.
func (b *bench) sendIn(id uint32, parent trace.SpanContext, err error) {
	b.src.SetParent(uint64(id), parent)
	span := b.log.Next()
	b.log.Put(span, trail.Begin, uint8(trail.Send), 100, 0)
	b.log.Put(span, trail.Parent, 0, uint64(id), 0)
	b.log.Put(span, trail.Chosen, uint8(ope.Eager), trail.Connids(own, other), id)
	b.end(span, err)
}

// TestParent: with a span of the application the operation is within that, and has a
// link to where the other side is.
func TestParent(t *testing.T) {
	for name, cfg := range map[string]telemetry.Config{
		"sampled": {}, "left out by the ratio, but the application's is sampled": {Ratio: -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, cfg)
			b.sendIn(7, app(trace.FlagsSampled), nil)
			list := b.take()
			require.Len(t, list, 1)
			s := list[0]
			assert.Equal(t, app(0).TraceID(), s.SpanContext().TraceID())
			assert.Equal(t, app(0).SpanID(), s.Parent().SpanID())
			key := telemetry.Key{Requester: own, Responder: other, Kind: trail.MsgID, ID: 7}
			require.Len(t, s.Links(), 1)
			assert.Equal(t, key.SpanContext().TraceID(), s.Links()[0].SpanContext.TraceID())
			assert.Equal(t, key.SpanContext().SpanID(), s.Links()[0].SpanContext.SpanID())
			assert.Equal(t, key.String(), spans.Get(s.Attributes(), "efa.message.key"))
			assert.Empty(t, spans.Get(s.Attributes(), "efa.summary"))
		})
	}
}

// TestParentOfReceive: the parent decides of a receive whose message had no say.
func TestParentOfReceive(t *testing.T) {
	b := newBench(t, telemetry.Config{Ratio: -1})
	msg := b.begin(trail.Message, 1)
	b.log.Put(msg, trail.Unexpected, 0, 0, 0)
	b.src.SetParent(1, app(trace.FlagsSampled))
	span := b.log.Next()
	b.log.Put(span, trail.Begin, uint8(trail.Receive), 100, 0)
	b.log.Put(span, trail.Parent, 0, 1, 0)
	b.log.Put(span, trail.Matched, 0, msg, 0)
	b.end(span, nil)
	list := b.take()
	require.Len(t, list, 1)
	assert.Equal(t, "arrived protocol_chosen unexpected posted matched completed", events(list[0]))
	assert.Equal(t, app(0).TraceID(), list[0].SpanContext().TraceID())
}

// TestUnsampledParent: the provider's sampler follows the application's, but failures
// are recorded all the same.
func TestUnsampledParent(t *testing.T) {
	b := newBench(t, telemetry.Config{}, sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
	b.sendIn(7, app(0), nil)
	require.Empty(t, b.take())
	b.sendIn(8, app(0), errno.ErrIO)
	list := b.take()
	require.Len(t, list, 1)
	key := telemetry.Key{Requester: own, Responder: other, Kind: trail.MsgID, ID: 8}
	assert.Equal(t, key.SpanContext().TraceID(), list[0].SpanContext().TraceID())
	require.Len(t, list[0].Links(), 1)
	assert.Equal(t, app(0).TraceID(), list[0].Links()[0].SpanContext.TraceID())

	// A failure before there is a key.
	span := b.log.Next()
	b.log.Put(span, trail.Begin, uint8(trail.Send), 100, 0)
	b.end(span, errno.ErrCanceled)
	list = b.take()
	require.Len(t, list, 1)
	assert.Empty(t, keys(list)[0])
}

// TestWithoutKey: an operation that no packet names is the root of its own trace.
func TestWithoutKey(t *testing.T) {
	b := newBench(t, telemetry.Config{})
	span := b.log.Next()
	b.log.Put(span, trail.Begin, uint8(trail.Write), 100, 0)
	b.log.Put(span, trail.Chosen, uint8(ope.DirectWrite), 0, 0)
	b.end(span, nil)
	list := b.take()
	require.Len(t, list, 1)
	assert.False(t, list[0].Parent().IsValid())
	assert.Empty(t, keys(list)[0])
}
