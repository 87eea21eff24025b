package telemetry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/internal/spans"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a collector and one endpoint, whose shard the test plays.
type bench struct {
	t     *testing.T
	clock clock.Manual
	spans spans.Log
	c     *telemetry.Collector
	src   *telemetry.Source
	log   *trail.Log
	peer  uint64 // its span
}

const us = time.Microsecond

// The connids of the endpoint and its peer.
const (
	own   = 0xaaaa
	other = 0xbbbb
)

func newBench(t *testing.T, cfg telemetry.Config, opts ...sdk.TracerProviderOption) *bench {
	t.Helper()
	b := &bench{t: t}
	cfg.TracerProvider, cfg.Inline = b.spans.Provider(opts...), true
	var err error
	b.c, err = telemetry.New(cfg)
	require.NoError(t, err)
	b.open()
	return b
}

func (b *bench) open() {
	b.src = b.c.Open(telemetry.Endpoint{Now: b.clock.Now})
	b.log = b.src.Log()
	ep := b.log.Next()
	b.log.Put(ep, trail.EndpointBegin, 0, 0, 0)
	addr := wire.MakeRawAddr([16]byte{15: 1}, 1, own)
	b.log.Locate(ep, 0, &addr)
	b.peer = b.log.Next()
	b.log.Put(b.peer, trail.PeerBegin, 0, 0, 0)
	addr = wire.MakeRawAddr([16]byte{15: 2}, 1, other)
	b.log.Locate(b.peer, 0, &addr)
}

// begin begins an operation and chooses a subprotocol with a msg_id.
func (b *bench) begin(r trail.Role, id uint32) uint64 {
	span := b.log.Next()
	b.log.Put(span, trail.Begin, uint8(r), 100, 0)
	b.log.Put(span, trail.With, 0, b.peer, 0)
	if r == trail.Receive {
		return span
	}
	ids := trail.Connids(own, other)
	if !r.Ours() {
		ids = trail.Connids(other, own)
	}
	b.log.Put(span, trail.Chosen, uint8(ope.Eager), ids, id)
	return span
}

func (b *bench) end(span uint64, err error) {
	b.log.Outcome(span, trail.Told, 100, err)
	b.log.Outcome(span, trail.End, 100, err)
}

// send is a whole send.
func (b *bench) send(id uint32, took time.Duration, err error) {
	span := b.begin(trail.Send, id)
	b.clock.Advance(took)
	b.log.Put(span, trail.Sent, uint8(wire.TypeEagerMsgRTM), 100, 1)
	b.end(span, err)
}

// recv is a whole receive.
func (b *bench) recv(id uint32) {
	span := b.begin(trail.Receive, 0)
	msg := b.begin(trail.Message, id)
	b.log.Put(span, trail.Matched, 0, msg, 0)
	b.end(span, nil)
}

// take returns the spans that have ended but for peers' and endpoints'.
func (b *bench) take() (ops []sdk.ReadOnlySpan) {
	b.t.Helper()
	b.log.Flush()
	b.c.Drain()
	list := b.spans.Take()
	require.Empty(b.t, spans.Check(list))
	for _, s := range list {
		switch s.Name() {
		case "peer", "endpoint", "handshake":
		default:
			ops = append(ops, s)
		}
	}
	return ops
}

func keys(list []sdk.ReadOnlySpan) (k []string) {
	for _, s := range list {
		k = append(k, spans.Get(s.Attributes(), "efa.message.key"))
	}
	return k
}
