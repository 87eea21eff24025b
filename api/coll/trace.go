package coll

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Names of attributes of a collective's span, and of the event that it has for each
// round of its algorithm.
const (
	AttrAlgorithm = attribute.Key("coll.algorithm")
	AttrBytes     = attribute.Key("coll.bytes") // of this rank's longest buffer
	AttrRanks     = attribute.Key("coll.ranks")
	AttrRank      = attribute.Key("coll.rank")
	AttrContext   = attribute.Key("coll.context") // of the group
	AttrStep      = attribute.Key("coll.step")
	AttrTo        = attribute.Key("coll.to")
	AttrFrom      = attribute.Key("coll.from")
	AttrSent      = attribute.Key("coll.sent")     // bytes
	AttrReceived  = attribute.Key("coll.received") // bytes
)

// trace begins the span.
func (x *call) trace() {
	x.parent, x.span = x.cfg.Tracer.Start(x.parent, x.kind.String(),
		trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(
			AttrAlgorithm.String(x.alg.name),
			AttrBytes.Int(max(len(x.in), len(x.out))),
			AttrRanks.Int(len(x.peers)),
			AttrRank.Int(x.rank),
			AttrContext.Int(int(x.id)),
		))
	if !x.span.IsRecording() {
		x.span.End()
		x.span = nil
	}
}

// round is an event of the span.
func (x *call) round(to, sent, from, received, step int) {
	a := make([]attribute.KeyValue, 0, 5)
	a = append(a, AttrStep.Int(step))
	if to >= 0 {
		a = append(a, AttrTo.Int(to), AttrSent.Int(sent))
	}
	if from >= 0 {
		a = append(a, AttrFrom.Int(from), AttrReceived.Int(received))
	}
	x.span.AddEvent("round", trace.WithAttributes(a...))
}

// traced ends the span.
func (x *call) traced(err error) {
	if err != nil {
		x.span.RecordError(err)
		x.span.SetStatus(codes.Error, err.Error())
	}
	x.span.End()
}
