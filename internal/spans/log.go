package spans

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// Log keeps spans. Its zero value is ready.
type Log struct {
	rec *tracetest.SpanRecorder
}

// Provider returns a TracerProvider whose spans go to the log. opts determine its
// resource.
func (l *Log) Provider(opts ...sdk.TracerProviderOption) trace.TracerProvider {
	if l.rec == nil {
		l.rec = tracetest.NewSpanRecorder()
	}
	return sdk.NewTracerProvider(append(opts, sdk.WithSpanProcessor(l.rec))...)
}

// Take returns the spans that have ended since the last time: by endpoint, then by
// when they began.
func (l *Log) Take() []sdk.ReadOnlySpan {
	list := l.rec.Ended()
	l.rec.Reset()
	slices.SortStableFunc(list, func(x, y sdk.ReadOnlySpan) int {
		return cmp.Or(cmp.Compare(Endpoint(x), Endpoint(y)), x.StartTime().Compare(y.StartTime()))
	})
	return list
}

// Endpoint is the connid of the endpoint that a span is of.
func Endpoint(s sdk.ReadOnlySpan) string { return Get(s.Attributes(), "messaging.client.id") }

// Get returns an attribute's value as text, "" if there is none.
func Get(attrs []attribute.KeyValue, key attribute.Key) string {
	for _, kv := range attrs {
		if kv.Key == key {
			return kv.Value.String()
		}
	}
	return ""
}

// first are attributes of a span that the text has at the beginning, in brackets.
var first = []attribute.Key{"efa.protocol", "efa.message.key", "efa.bytes"}

// left are attributes that every span has.
var left = append(slices.Clone(first), "messaging.system", "messaging.operation.name", "messaging.operation.type",
	"messaging.message.body.size", "messaging.client.id", "efa.peer.connid", "efa.peer.address", "efa.peer.handle", "network.peer.address", "network.peer.port")

// Text writes down spans; name gives the endpoint with a connid a name.
func Text(list []sdk.ReadOnlySpan, name func(connid string) string) string {
	var b strings.Builder
	for _, s := range list {
		writeSpan(&b, s, name)
	}
	return b.String()
}

func writeSpan(b *strings.Builder, s sdk.ReadOnlySpan, name func(string) string) {
	fmt.Fprintf(b, "%s %s %s", name(Endpoint(s)), s.Name(), s.SpanKind())
	for _, k := range first {
		if v := Get(s.Attributes(), k); v != "" {
			fmt.Fprintf(b, " [%s]", v)
		}
	}
	for _, kv := range s.Attributes() {
		if !slices.Contains(left, kv.Key) {
			b.WriteString(" " + value(kv))
		}
	}
	if s.Status().Code == codes.Error {
		fmt.Fprintf(b, " error=%q", s.Status().Description)
	}
	if n := len(s.Links()); n > 0 {
		fmt.Fprintf(b, " links=%d", n)
	}
	b.WriteByte('\n')
	for _, e := range s.Events() {
		b.WriteString("  " + e.Name)
		for _, kv := range e.Attributes {
			b.WriteString(" " + strings.TrimPrefix(value(kv), "efa."))
		}
		b.WriteByte('\n')
	}
}

// value leaves times out.
func value(kv attribute.KeyValue) string {
	switch k := string(kv.Key); {
	case strings.HasSuffix(k, ".wait"), strings.HasSuffix(k, ".time"), strings.HasSuffix(k, ".planned"):
		return k
	default:
		return k + "=" + kv.Value.String()
	}
}
