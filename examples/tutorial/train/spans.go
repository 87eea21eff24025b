package main

import (
	"context"
	"fmt"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// lastSpans keeps what is traced. It is an sdktrace.SpanExporter; a collector takes its place with
// one of OpenTelemetry's exporters.
type lastSpans struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

// ExportSpans implements sdktrace.SpanExporter.
func (l *lastSpans) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spans = append(l.spans, spans...)
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (l *lastSpans) Shutdown(context.Context) error { return nil }

func (l *lastSpans) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spans = nil
}

func (l *lastSpans) print() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.spans {
		fmt.Printf("%s: %v\n", s.Name(), s.EndTime().Sub(s.StartTime()))
		for _, e := range s.Events() {
			fmt.Printf("  %v %s %v\n", e.Time.Sub(s.StartTime()), e.Name, e.Attributes)
		}
	}
}
