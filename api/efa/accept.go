package efa

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
)

// accept makes an operation of a request that has its place: it gets a sink and, if it is
// injected, a copy of its bytes. It is to be handed to the shard then, which gives it an id unless it has one, or
// refused.
func (e *Endpoint) accept(req *ope.Request, sink ope.Sink) {
	req.Sink = sink
	if req.Flags&(ope.Inject|ope.Borrowed) == ope.Inject {
		own(req)
	}
}

// ownID marks the ids that the endpoint has not given, see [endpoint.Endpoint.Submit].
const ownID = 1 << 63

// traced makes a request that was accepted part of a span of the application, if there is one.
func (e *Endpoint) traced(req *ope.Request, parent trace.SpanContext) {
	if parent.IsValid() && req.Flags&ope.Traced == 0 {
		if req.ID>>62 != ownID>>62 { // parents are kept by such ids
			req.ID = ownID | e.lastID.Add(1)
		}
		req.Flags |= ope.Traced
		e.tele.SetParent(req.ID, parent)
	}
}

// refuse takes back what accept did to a request that the shard had no room for, and its
// place.
func (e *Endpoint) refuse(req *ope.Request) {
	disown(req)
	putMore(req)
	e.credits(req).release()
}

// credits is what bounds operations like req; nil: nothing does.
func (e *Endpoint) credits(req *ope.Request) *credits {
	switch req.Kind {
	case ope.KindPeek, ope.KindClaim:
		if req.Flags&ope.Discard == 0 {
			return nil // it holds nothing
		}
		return &e.rx
	case ope.KindRecv, ope.KindTake:
		return &e.rx
	default:
		return &e.tx
	}
}
