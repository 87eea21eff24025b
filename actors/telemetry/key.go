package telemetry

import (
	"encoding/binary"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/trail"
)

// Key identifies an operation on both sides: the connids of requester and responder,
// and the id that its packets carry. Ids repeat: a msg_id after 2^32 messages to a
// peer, the others after 4,096 uses of the same place among an endpoint's operations.
// The zero Key is no key.
type Key struct {
	Requester, Responder uint32
	Kind                 trail.KeyKind
	ID                   uint32
}

// keyOf returns the key of a record.
func keyOf(p ope.Proto, connids uint64, id uint32) Key {
	if connids == 0 {
		return Key{}
	}
	return Key{Requester: uint32(connids >> 32), Responder: uint32(connids), Kind: p.KeyKind(), ID: id}
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.Kind == trail.NoKey }

var keyKinds = [...]string{trail.NoKey: "none", trail.MsgID: "msg_id", trail.SendID: "send_id", trail.RecvID: "recv_id"}

// String is the attribute efa.message.key: connids in hexadecimal, kind and id.
func (k Key) String() string {
	return fmt.Sprintf("%08x:%08x:%s:%d", k.Requester, k.Responder, keyKinds[k.Kind], k.ID)
}

// words returns three hashes of the key, as documented in docs/telemetry.md.
func (k Key) words() (a, b, c uint64) {
	ids := trail.Connids(k.Requester, k.Responder)
	a = mix(mix(ids) + trail.Connids(uint32(k.Kind), k.ID))
	b = mix(a ^ ids)
	return a, b, mix(b)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// SpanContext is the parent that the spans of both sides have in common. No span is
// made for it.
func (k Key) SpanContext() trace.SpanContext {
	a, b, c := k.words()
	return spanContext(a, b, c)
}

func spanContext(a, b, c uint64) trace.SpanContext {
	var cfg trace.SpanContextConfig
	binary.BigEndian.PutUint64(cfg.TraceID[:8], a)
	binary.BigEndian.PutUint64(cfg.TraceID[8:], b)
	binary.BigEndian.PutUint64(cfg.SpanID[:], c)
	cfg.TraceFlags, cfg.Remote = trace.FlagsSampled, true
	return trace.NewSpanContext(cfg)
}

// ratio is the share of operations that are sampled, in units of 2^-63.
type ratio uint64

// newRatio takes 0 as all, and what is negative as none.
func newRatio(r float64) ratio {
	switch {
	case r < 0:
		return 0
	case r == 0 || r >= 1:
		return 1 << 63
	default:
		return ratio(r * (1 << 63))
	}
}

// takes decides by the low half of a trace's id, as OpenTelemetry's own sampler
// does.
func (r ratio) takes(b uint64) bool { return ratio(b>>1) < r }

// sampled makes the same decision on both sides of an operation.
func (r ratio) sampled(k Key) bool {
	_, b, _ := k.words()
	return r.takes(b)
}
