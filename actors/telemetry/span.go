package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// errUnknown stands for an error that was dropped before it was read.
var errUnknown = errors.New("the error is not known any more")

// roles are the names and kinds of the operations' spans.
var roles = [trail.NumRoles]struct {
	name string
	kind trace.SpanKind
}{
	trail.Send:          {spanSend, trace.SpanKindClient},
	trail.Receive:       {spanReceive, trace.SpanKindClient},
	trail.Write:         {spanWrite, trace.SpanKindClient},
	trail.Read:          {spanRead, trace.SpanKindClient},
	trail.AtomicWrite:   {spanAtomic, trace.SpanKindClient},
	trail.AtomicFetch:   {spanAtomic, trace.SpanKindClient},
	trail.AtomicCompare: {spanAtomic, trace.SpanKindClient},
	trail.Message:       {spanUnmatched, trace.SpanKindServer},
	trail.TargetWrite:   {spanWrite, trace.SpanKindServer},
	trail.TargetRead:    {spanRead, trace.SpanKindServer},
	trail.TargetAtomic:  {spanAtomic, trace.SpanKindServer},
}

// slow reports whether something took so long that it is recorded for that.
func (c *Collector) slow(d time.Duration) bool { return c.cfg.Slow > 0 && d >= c.cfg.Slow }

// span makes the span of an operation that is over, if it is to have one. An operation
// that was not sampled has one without intermediate events if it failed or took long.
func (s *Source) span(o *op) {
	c := s.c
	must := o.failed() || c.slow(o.latency())
	if c.tracer == nil || o.unsampled && !must || o.role >= trail.NumRoles {
		return
	}
	span := s.start(o, must)
	if !span.IsRecording() {
		span.End(trace.WithTimestamp(c.wall(o.ended)))
		return
	}
	for i := range o.events.list {
		if ev := &o.events.list[i]; !o.unsampled || i == 0 {
			addEvent(span, c.wall(ev.at), o, ev)
		}
	}
	if o.unsampled {
		at := o.told
		if !o.wasTold {
			at = o.ended
		}
		addEvent(span, c.wall(at), o, &event{kind: trail.Told, a: o.moved})
	}
	if o.failed() {
		span.SetStatus(codes.Error, o.error().Error())
	}
	span.End(trace.WithTimestamp(c.wall(o.ended)))
}

func (o *op) error() error {
	if o.err == nil {
		return errUnknown
	}
	return o.err
}

// start begins the span in its trace: that of the application's span, that of the
// operation's key, or one of its own. must says that it is recorded even if the
// provider's sampler, following the application's span, would not record it.
func (s *Source) start(o *op, must bool) trace.Span {
	opts := []trace.SpanStartOption{
		trace.WithTimestamp(s.c.wall(o.began)), trace.WithSpanKind(roles[o.role].kind),
		trace.WithAttributes(s.describe(o)...),
	}
	ctx, own := context.Background(), append(opts, trace.WithNewRoot())
	var keyed trace.SpanContext
	if !o.key.IsZero() {
		keyed = o.key.SpanContext()
	}
	switch {
	case o.parent.IsValid():
		ctx, own = trace.ContextWithSpanContext(ctx, o.parent), opts
		if keyed.IsValid() {
			own = append(own, trace.WithLinks(trace.Link{SpanContext: keyed}))
		}
	case keyed.IsValid():
		ctx, own = trace.ContextWithRemoteSpanContext(ctx, keyed), opts
	}
	_, span := s.c.tracer.Start(ctx, roles[o.role].name, own...)
	if span.IsRecording() || !must {
		return span
	}
	if !keyed.IsValid() {
		h := s.own(o)
		keyed = spanContext(mix(h), h, mix(^h))
	}
	if o.parent.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: o.parent}))
	}
	_, span = s.c.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), keyed), roles[o.role].name, opts...)
	return span
}

// describe returns the attributes of an operation's span.
func (s *Source) describe(o *op) []attribute.KeyValue {
	a := s.attributes(o.peer)
	a = append(a, attrOperation.String(roles[o.role].name), attrBytes.Int64(int64(o.moved)))
	switch o.role {
	case trail.Send:
		a = append(a, attrOperationType.String("send"), attrBodySize.Int64(int64(o.size)))
	case trail.Receive:
		a = append(a, attrOperationType.String("receive"))
	case trail.Message:
		a = append(a, attrBodySize.Int64(int64(o.size)))
	default:
	}
	if o.proto != ope.ProtoNone {
		a = append(a, attrProtocol.String(o.proto.String()))
	}
	if !o.key.IsZero() {
		a = append(a, attrKey.String(o.key.String()))
	}
	if o.flags&trail.FlagTagged != 0 {
		a = append(a, attrTag.String(fmt.Sprintf("%#x", o.tag)))
	}
	a = flag(a, o, trail.FlagData, attrCQData)
	a = flag(a, o, trail.FlagDeliver, attrDeliver)
	a = flag(a, o, trail.FlagInject, attrInject)
	for r := trail.ForTurn; r < trail.NumReasons; r++ {
		if o.took[r] > 0 {
			a = append(a, attribute.Key(waits[r]).Float64(o.took[r].Seconds()))
		}
	}
	if o.rnr > 0 {
		a = append(a, attrRNRCount.Int64(int64(o.rnr)))
	}
	if o.failed() {
		a = append(a, attrErrorType.String(ope.ErrorType(o.error())))
	}
	if o.unsampled {
		a = append(a, attrSummary.Bool(true))
	}
	if o.incomplete {
		a = append(a, attrIncomplete.Bool(true))
	}
	if o.events.dropped > 0 {
		a = append(a, attrDropped.Int(o.events.dropped))
	}
	return a
}

func flag(a []attribute.KeyValue, o *op, f uint32, k attribute.Key) []attribute.KeyValue {
	if o.flags&f == 0 {
		return a
	}
	return append(a, k.Bool(true))
}

// direction is whether a packet was received or sent.
func direction(came bool) attribute.KeyValue {
	if came {
		return attrDirection.String("received")
	}
	return attrDirection.String("sent")
}

func rdma(code uint8) attribute.KeyValue {
	if device.WR(code) == device.WRRead {
		return attrRDMA.String("read")
	}
	return attrRDMA.String("write")
}

// packetType describes a packet by its type; code 0 is data without a header.
func packetType(code uint8) attribute.KeyValue {
	if code == 0 {
		return attrPacketType.String("DATA")
	}
	return attrPacketType.String(wire.Type(code).String())
}

// addEvent adds one of the operation's events to a span.
func addEvent(span trace.Span, at time.Time, o *op, ev *event) {
	var name string
	var a []attribute.KeyValue
	bytes := attrBytes.Int64(int64(ev.a))
	switch ev.kind {
	case trail.Begin:
		if name, a = eventPosted, []attribute.KeyValue{bytes}; ev.code == 1 {
			name = eventArrived
		}
	case trail.Waits:
		name = waits[ev.code]
		a = []attribute.KeyValue{attrWaitTime.Float64(ev.took.Seconds()), attrWaitCount.Int(int(ev.n))}
	case trail.Chosen:
		name, a = eventProtocol, []attribute.KeyValue{attrProtocol.String(ope.Proto(ev.code).String())}
	case trail.Sent:
		name, a = eventSent, []attribute.KeyValue{packetType(ev.code), attrPacketCount.Int(int(ev.n)), bytes}
	case trail.Acked:
		name, a = eventAcked, []attribute.KeyValue{bytes}
	case trail.Window:
		name, a = eventWindow, []attribute.KeyValue{direction(ev.code == 1), bytes}
	case trail.Received:
		name, a = eventReceived, []attribute.KeyValue{packetType(ev.code), attrPacketCount.Int(int(ev.n)), bytes}
	case trail.Segment:
		name = eventSegment
		a = []attribute.KeyValue{rdma(ev.code), attrOffset.Int64(int64(ev.a)), attrBytes.Int64(int64(ev.n))}
	case trail.SegmentDone:
		name, a = eventSegments, []attribute.KeyValue{rdma(ev.code), attrSegmentCount.Int(int(ev.n)), bytes}
	case trail.RNR:
		name, a = eventRNR, []attribute.KeyValue{packetType(ev.code), attrRNRCount.Int(int(ev.n))}
	case trail.Unexpected:
		name = eventUnexpected
	case trail.Matched:
		name = eventMatched
	case trail.Answer:
		name, a = answers[wire.Type(ev.code)], []attribute.KeyValue{direction(ev.n == 1)}
		if name == "" {
			name, a = eventAnswer, append(a, packetType(ev.code))
		}
	case trail.Restarted:
		name = eventRestarted
	case trail.Told:
		if name, a = eventCompleted, []attribute.KeyValue{bytes}; o.failed() {
			name = eventFailed
			a = []attribute.KeyValue{attrErrorType.String(ope.ErrorType(o.error())), attrReason.String(o.error().Error())}
		}
	default: // no event
	}
	span.AddEvent(name, trace.WithTimestamp(at), trace.WithAttributes(a...))
}

// wall converts a shard's time to wall time.
func (c *Collector) wall(t clock.Time) time.Time { return c.cfg.Wall(t) }
