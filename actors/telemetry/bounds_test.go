package telemetry_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/internal/spans"
)

// TestOverflow: spans of operations in progress when records were dropped say so, later
// ones do not.
func TestOverflow(t *testing.T) {
	b := newBench(t, telemetry.Config{Records: 1024})
	open := b.begin(trail.Send, 1)
	for id := range uint32(1000) { // nobody reads
		b.send(100+id, us, nil)
	}
	first := b.take()
	require.Less(t, len(first), 1000)
	b.end(open, nil)
	b.send(5000, us, nil)
	list := b.take()
	byKey := map[string]string{}
	for _, s := range list {
		byKey[spans.Get(s.Attributes(), "efa.message.key")] = spans.Get(s.Attributes(), "efa.incomplete")
	}
	assert.Equal(t, "true", byKey["0000aaaa:0000bbbb:msg_id:1"])
	assert.Contains(t, byKey, "0000aaaa:0000bbbb:msg_id:5000")
	assert.Empty(t, byKey["0000aaaa:0000bbbb:msg_id:5000"])
	for _, s := range first {
		assert.Empty(t, spans.Get(s.Attributes(), "efa.incomplete"), "all of its records came")
	}
}

// TestMostOpen: of too many operations in progress the oldest are let go.
func TestMostOpen(t *testing.T) {
	b := newBench(t, telemetry.Config{MaxOpen: 10})
	var open []uint64
	for id := range uint32(100) {
		open = append(open, b.begin(trail.Send, id))
	}
	list := b.take()
	require.Len(t, list, 90)
	for i, s := range list {
		require.Equal(t, "true", spans.Get(s.Attributes(), "efa.incomplete"))
		require.Contains(t, keys(list)[i], fmt.Sprintf("msg_id:%d", i))
	}
	for _, span := range open {
		b.end(span, nil)
	}
	list = b.take()
	require.Len(t, list, 10)
	for _, s := range list {
		require.Empty(t, spans.Get(s.Attributes(), "efa.incomplete"))
	}
}

// TestManyEvents: a span has no more events than OpenTelemetry keeps, and says how many
// it left out.
func TestManyEvents(t *testing.T) {
	b := newBench(t, telemetry.Config{})
	span := b.begin(trail.Send, 1)
	for range 500 {
		b.log.Put(span, trail.Window, 1, 1000, 0)
		b.log.Put(span, trail.Sent, 4, 1000, 1)
	}
	b.end(span, errno.ErrIO)
	list := b.take()
	require.Len(t, list, 1)
	s := list[0]
	assert.Len(t, s.Events(), 101)
	assert.Equal(t, "efa.failed", s.Events()[100].Name)
	assert.Equal(t, "902", spans.Get(s.Attributes(), "efa.events.dropped"))
}

// TestClose: operations that the endpoint leaves open end with it.
func TestClose(t *testing.T) {
	b := newBench(t, telemetry.Config{})
	b.begin(trail.Send, 1)
	b.send(2, us, nil)
	b.log.Flush()
	b.src.Close(nil)
	list := b.spans.Take()
	got := map[string]string{}
	for _, s := range list {
		got[s.Name()+" "+spans.Get(s.Attributes(), "efa.message.key")] = spans.Get(s.Attributes(), "efa.incomplete")
	}
	require.Equal(t, map[string]string{
		"send 0000aaaa:0000bbbb:msg_id:1": "true", "send 0000aaaa:0000bbbb:msg_id:2": "",
		"handshake ": "", "peer ": "true", "endpoint ": "true",
	}, got)
}

// TestForgottenError: an error that was not asked for in time is not known any more.
func TestForgottenError(t *testing.T) {
	b := newBench(t, telemetry.Config{Records: 1 << 14})
	b.send(1, us, errno.ErrIO)
	for id := range uint32(1000) {
		b.send(2+id, us, errno.ErrCanceled)
	}
	list := b.take()
	require.Len(t, list, 1001)
	assert.Equal(t, "_OTHER", spans.Get(list[0].Attributes(), "error.type"))
	assert.Equal(t, "FI_ECANCELED", spans.Get(list[1000].Attributes(), "error.type"))
}

// TestParentsAreBounded: unused spans of the application make room.
func TestParentsAreBounded(t *testing.T) {
	b := newBench(t, telemetry.Config{Records: 1024})
	for id := range uint64(1000) {
		b.src.SetParent(id, app(1))
	}
	b.sendIn(2000, app(1), nil)
	span := b.log.Next()
	b.log.Put(span, trail.Begin, uint8(trail.Send), 100, 0)
	b.log.Put(span, trail.Parent, 0, 5, 0) // its place is another's
	b.log.Put(span, trail.Chosen, uint8(ope.Eager), trail.Connids(own, other), 1)
	b.end(span, nil)
	list := b.take()
	require.Len(t, list, 2)
	assert.Equal(t, app(0).SpanID(), list[0].Parent().SpanID())
	assert.NotEqual(t, app(0).SpanID(), list[1].Parent().SpanID())
}

// FuzzRecords: whatever the records say, nothing panics, and spans are well-formed.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 5, 1, 0, 9, 17, 1, 0, 0})
	f.Add([]byte{1, 1, 2, 0, 1, 2, 8, 0, 13, 1, 2, 2, 19, 1, 0, 0, 20, 1, 1, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		b := newBench(t, telemetry.Config{MaxOpen: 8, Slow: 5 * us})
		for ; len(in) >= 4; in = in[4:] {
			kind := trail.Kind(in[0] % uint8(trail.NumKinds+2))
			if kind == trail.Gap {
				kind = trail.RNR
			}
			b.clock.Advance(us)
			b.log.Put(uint64(in[1]%16)+1, kind, in[2], uint64(in[3]), uint32(in[3]))
			b.log.Flush()
		}
		b.c.Drain()
		b.src.Close(nil)
		for _, s := range b.spans.Take() {
			for _, e := range s.Events() {
				require.False(t, e.Time.Before(s.StartTime()) || e.Time.After(s.EndTime()), "%s in %s", e.Name, s.Name())
			}
		}
	})
}
