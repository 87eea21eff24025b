package otlp_test

import (
	gocontext "context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExample: the two processes of examples/tracing send their spans to a collector,
// where both sides of their messages are in one trace.
func TestExample(t *testing.T) {
	url, sink := collect(t)
	ctx, cancel := gocontext.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	exe := filepath.Join(t.TempDir(), "tracing")
	out, err := exec.CommandContext(ctx, "go", "build", "-C", "../..", "-o", exe, "./examples/tracing").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.CommandContext(ctx, exe, "-otlp", url).CombinedOutput()
	require.NoError(t, err, string(out))

	type side struct{ service, span string }
	sides := map[string]map[side]bool{} // by trace
	for _, batch := range sink.AllTraces() {
		for _, r := range batch.ResourceSpans().All() {
			service, _ := r.Resource().Attributes().Get("service.name")
			for _, s := range r.ScopeSpans().All() {
				for _, x := range s.Spans().All() {
					id := x.TraceID().String()
					if sides[id] == nil {
						sides[id] = map[side]bool{}
					}
					sides[id][side{service.Str(), x.Name()}] = true
				}
			}
		}
	}
	joined := 0
	for _, in := range sides {
		if in[side{"efactor tracing example, sender", "send"}] && in[side{"efactor tracing example, receiver", "receive"}] {
			joined++
		}
	}
	require.Greater(t, joined, 24, "messages whose both sides are in one trace")
}
