package otlp

import (
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The JSON form of opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest:
// names in lowerCamelCase, ids in hex, 64-bit numbers as strings.
type request struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   resourceOf   `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type resourceOf struct {
	Attributes []keyValue `json:"attributes,omitempty"`
}

type scopeSpans struct {
	Scope scope  `json:"scope"`
	Spans []span `json:"spans"`
}

type scope struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

type span struct {
	TraceID      string     `json:"traceId"`
	SpanID       string     `json:"spanId"`
	ParentSpanID string     `json:"parentSpanId,omitempty"`
	Name         string     `json:"name"`
	Kind         int        `json:"kind"`
	Start        string     `json:"startTimeUnixNano"`
	End          string     `json:"endTimeUnixNano"`
	Attributes   []keyValue `json:"attributes,omitempty"`
	Events       []event    `json:"events,omitempty"`
	Links        []link     `json:"links,omitempty"`
	Status       status     `json:"status"`
}

type event struct {
	Time       string     `json:"timeUnixNano"`
	Name       string     `json:"name"`
	Attributes []keyValue `json:"attributes,omitempty"`
}

type link struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	Attributes []keyValue `json:"attributes,omitempty"`
}

type status struct {
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

type keyValue struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// encode groups spans by resource and scope.
func encode(spans []sdktrace.ReadOnlySpan) request {
	var out request
	type place struct{ resource, scope int }
	resources := map[*resource.Resource]int{}
	places := map[*resource.Resource]map[instrumentation.Scope]place{}
	for _, s := range spans {
		res := s.Resource()
		i, ok := resources[res]
		if !ok {
			i = len(out.ResourceSpans)
			resources[res], places[res] = i, map[instrumentation.Scope]place{}
			out.ResourceSpans = append(out.ResourceSpans, resourceSpans{Resource: resourceOf{attributes(res.Attributes())}})
		}
		sc := s.InstrumentationScope()
		p, ok := places[res][sc]
		if !ok {
			p = place{i, len(out.ResourceSpans[i].ScopeSpans)}
			places[res][sc] = p
			out.ResourceSpans[i].ScopeSpans = append(out.ResourceSpans[i].ScopeSpans, scopeSpans{Scope: scope{sc.Name, sc.Version}})
		}
		to := &out.ResourceSpans[p.resource].ScopeSpans[p.scope]
		to.Spans = append(to.Spans, encodeSpan(s))
	}
	return out
}

func encodeSpan(s sdktrace.ReadOnlySpan) span {
	out := span{
		TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().String(),
		Name: s.Name(), Kind: int(s.SpanKind()), Start: nanos(s.StartTime()), End: nanos(s.EndTime()),
		Attributes: attributes(s.Attributes()), Status: encodeStatus(s.Status()),
	}
	if p := s.Parent(); p.SpanID().IsValid() {
		out.ParentSpanID = p.SpanID().String()
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, event{nanos(e.Time), e.Name, attributes(e.Attributes)})
	}
	for _, l := range s.Links() {
		out.Links = append(out.Links, link{
			l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String(), attributes(l.Attributes),
		})
	}
	return out
}

// encodeStatus turns the API's codes into the protocol's, which count otherwise.
func encodeStatus(s sdktrace.Status) status {
	switch s.Code {
	case codes.Ok:
		return status{Code: 1}
	case codes.Error:
		return status{Code: 2, Message: s.Description}
	default:
		return status{}
	}
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func attributes(kvs []attribute.KeyValue) []keyValue {
	out := make([]keyValue, 0, len(kvs))
	for _, kv := range kvs {
		out = append(out, keyValue{string(kv.Key), value(kv.Value)})
	}
	return out
}

func value(v attribute.Value) map[string]any {
	switch v.Type() {
	case attribute.BOOL:
		return map[string]any{"boolValue": v.AsBool()}
	case attribute.INT64:
		return map[string]any{"intValue": strconv.FormatInt(v.AsInt64(), 10)}
	case attribute.FLOAT64:
		return map[string]any{"doubleValue": v.AsFloat64()}
	case attribute.STRINGSLICE:
		list := []map[string]any{}
		for _, s := range v.AsStringSlice() {
			list = append(list, map[string]any{"stringValue": s})
		}
		return map[string]any{"arrayValue": map[string]any{"values": list}}
	default:
		return map[string]any{"stringValue": v.String()}
	}
}
