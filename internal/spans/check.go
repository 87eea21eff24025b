package spans

import (
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Check returns the errors in spans.
func Check(list []sdk.ReadOnlySpan) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	traces := map[string]trace.TraceID{}
	for _, s := range list {
		checkNames(s, bad)
		for _, e := range s.Events() {
			if e.Time.Before(s.StartTime()) || e.Time.After(s.EndTime()) {
				bad("event %s of %s is outside of its time", e.Name, s.Name())
			}
		}
		key := Get(s.Attributes(), "efa.message.key")
		if key == "" || len(s.Links()) > 0 {
			continue // its parent is the application's
		}
		id := s.SpanContext().TraceID()
		if was, ok := traces[key]; ok && was != id {
			bad("the spans of %s are in two traces", key)
		}
		traces[key] = id
		if s.Parent().TraceID() != id || !s.Parent().IsRemote() {
			bad("the parent of %s is not what the key says", key)
		}
	}
	return wrong
}

// checkNames looks for names that the tables do not have.
func checkNames(s sdk.ReadOnlySpan, bad func(string, ...any)) {
	known := func(table []Name, name string) bool {
		return slices.ContainsFunc(table, func(n Name) bool { return n.Name == name })
	}
	attributes := func(where string, attrs []attribute.KeyValue) {
		for _, kv := range attrs {
			if !known(Attributes, string(kv.Key)) {
				bad("attribute %s of %s is not in the table", kv.Key, where)
			}
		}
	}
	if !known(Spans, s.Name()) {
		bad("span %s is not in the table", s.Name())
	}
	attributes("span "+s.Name(), s.Attributes())
	for _, e := range s.Events() {
		if !known(Events, e.Name) {
			bad("event %s is not in the table", e.Name)
		}
		attributes("event "+e.Name, e.Attributes)
	}
}
