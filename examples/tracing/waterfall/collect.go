package waterfall

import (
	"context"
	"strings"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Collector keeps spans to be drawn. It is an sdktrace.SpanExporter.
type Collector struct {
	Who string

	mu    sync.Mutex
	spans []Span
}

// ExportSpans keeps a batch.
func (c *Collector) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range spans {
		d := Span{
			Who: c.Who, Name: readable(s.Name()), Trace: s.SpanContext().TraceID().String(),
			Start: s.StartTime(), End: s.EndTime(), Failed: s.Status().Code, Why: s.Status().Description,
		}
		for _, kv := range s.Attributes() {
			if f, ok := factOf(kv); ok {
				d.Facts = append(d.Facts, f)
			}
		}
		for _, e := range s.Events() {
			ev := Event{Name: readable(e.Name), Time: e.Time}
			for _, kv := range e.Attributes {
				ev.Facts = append(ev.Facts, fact(kv))
			}
			d.Events = append(d.Events, ev)
		}
		c.spans = append(c.spans, d)
	}
	return nil
}

// Shutdown has nothing to do.
func (c *Collector) Shutdown(context.Context) error { return nil }

// Spans returns the collected spans.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// readable turns a name of telemetry into words.
func readable(name string) string {
	name = strings.TrimPrefix(name, "efa.")
	name = strings.ReplaceAll(name, "backoff", "back-off")
	return strings.NewReplacer("_", " ", ".", " ").Replace(name)
}
