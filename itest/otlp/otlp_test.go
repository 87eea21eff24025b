package otlp_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/examples/tracing/otlp"
)

func context(n byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 15: n}, SpanID: trace.SpanID{3, 7: n}, TraceFlags: trace.FlagsSampled,
	})
}

// TestExporter: a collector reads every field of a span as it was meant.
func TestExporter(t *testing.T) {
	url, sink := collect(t)
	start := time.Unix(1_700_000_000, 123_456_789)
	stub := tracetest.SpanStub{
		Name: "send", SpanContext: context(1), Parent: context(2), SpanKind: trace.SpanKindProducer,
		StartTime: start, EndTime: start.Add(time.Millisecond),
		Attributes: []attribute.KeyValue{
			attribute.String("s", "x\"<&"), attribute.Int64("i", 1<<60), attribute.Bool("b", true),
			attribute.Float64("f", 0.5), attribute.StringSlice("l", []string{"p", "q"}),
		},
		Events: []sdktrace.Event{{
			Name: "posted", Time: start.Add(time.Microsecond), Attributes: []attribute.KeyValue{attribute.Int("bytes", 8)},
		}},
		Links:                []sdktrace.Link{{SpanContext: context(3)}},
		Status:               sdktrace.Status{Code: codes.Error, Description: "why"},
		Resource:             resource.NewSchemaless(attribute.String("service.name", "test")),
		InstrumentationScope: instrumentation.Scope{Name: "scope", Version: "1"},
	}
	require.NoError(t, otlp.New(url+"/").ExportSpans(t.Context(), tracetest.SpanStubs{stub, {Name: "other", StartTime: start, EndTime: start}}.Snapshots()))

	require.Equal(t, 2, sink.SpanCount())
	all := sink.AllTraces()[0]
	var rs ptrace.ResourceSpans
	for _, r := range all.ResourceSpans().All() {
		if v, ok := r.Resource().Attributes().Get("service.name"); ok && v.Str() == "test" {
			rs = r
		}
	}
	scope := rs.ScopeSpans().At(0)
	assert.Equal(t, "scope", scope.Scope().Name())
	s := scope.Spans().At(0)
	assert.Equal(t, "send", s.Name())
	assert.Equal(t, context(1).TraceID().String(), s.TraceID().String())
	assert.Equal(t, context(1).SpanID().String(), s.SpanID().String())
	assert.Equal(t, context(2).SpanID().String(), s.ParentSpanID().String())
	assert.Equal(t, ptrace.SpanKindProducer, s.Kind())
	assert.Equal(t, start.UnixNano(), s.StartTimestamp().AsTime().UnixNano())
	assert.Equal(t, start.Add(time.Millisecond).UnixNano(), s.EndTimestamp().AsTime().UnixNano())
	assert.Equal(t, map[string]any{
		"s": "x\"<&", "i": int64(1 << 60), "b": true, "f": 0.5, "l": []any{"p", "q"},
	}, s.Attributes().AsRaw())
	e := s.Events().At(0)
	assert.Equal(t, "posted", e.Name())
	assert.Equal(t, map[string]any{"bytes": int64(8)}, e.Attributes().AsRaw())
	assert.Equal(t, context(3).TraceID().String(), s.Links().At(0).TraceID().String())
	assert.Equal(t, ptrace.StatusCodeError, s.Status().Code())
	assert.Equal(t, "why", s.Status().Message())
}

// TestExporterFails: data that the collector refuses causes an error that names it.
func TestExporterFails(t *testing.T) {
	url, _ := collect(t)
	spans := tracetest.SpanStubs{{Name: "x", StartTime: time.Unix(1, 0), EndTime: time.Unix(1, 0)}}.Snapshots()
	require.ErrorContains(t, otlp.New(url+"/nowhere").ExportSpans(t.Context(), spans), "404")
	require.ErrorContains(t, otlp.New("http://127.0.0.1:1").ExportSpans(t.Context(), spans), "refused")
}
