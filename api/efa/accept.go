package efa

import (
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// intake hands requests that were checked over to the shard, and waits for the outcome of
// blocking calls.
type intake struct {
	checker
	outcomes
	binding
	followed

	sh       *shard.Shard
	act      *endpoint.Endpoint // set by Enable
	log      *slog.Logger
	lastID   atomic.Uint64
	spare    atomic.Pointer[call] // of the last blocking operation
	injectTo ope.Sink
}

// accept makes an operation of a request that has its place: it gets an id, a sink,
// the span that it is part of, and, if it is injected, a copy of its bytes. It is to be
// handed to the shard then, or refused.
func (e *intake) accept(req *ope.Request, sink ope.Sink, parent *trace.SpanContext) {
	req.Sink = sink
	req.ID = e.lastID.Add(1)
	if e.tele != nil && parent.IsValid() {
		req.Flags |= ope.Traced
		e.tele.SetParent(req.ID, *parent)
	}
	own(req)
}

// refuse takes back what accept did to a request that the shard had no room for, and its
// place.
func (e *intake) refuse(req *ope.Request) {
	disown(req)
	putMore(req)
	e.credits(req).release()
}

// credits is what bounds operations like req; nil: nothing does.
func (e *outcomes) credits(req *ope.Request) *credits {
	switch req.Kind {
	case ope.KindPeek, ope.KindClaim:
		return nil // over as soon as it has begun
	case ope.KindRecv, ope.KindTake:
		return &e.rx
	default:
		return &e.tx
	}
}
