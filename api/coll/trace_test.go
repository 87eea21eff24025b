package coll_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
)

// TestTrace: a collective is a span that says by which algorithm it is done, with
// its rounds as events, and the operations that it is made of within it.
func TestTrace(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(rec))
	pa := newParty(t, 4, setup{
		seed: 1,
		efa:  efa.Telemetry{TracerProvider: provider},
		coll: coll.Config{Tracer: provider.Tracer("coll")},
	})
	err := pa.run(func(ctx context.Context, c *coll.Comm) error {
		ctx, span := provider.Tracer("app").Start(ctx, "app")
		defer span.End()
		buf := make([]int32, 100)
		if err := coll.Allreduce(ctx, c, buf, buf, coll.Sum, coll.Use("ring")); err != nil {
			return err
		}
		long := make([]int32, 100_000) // posted operations, too
		r, err := coll.Ibcast(ctx, c, long, 1, coll.Use("binomial"))
		if err != nil {
			return err
		}
		return r.Wait(ctx)
	})
	require.NoError(t, err)
	for _, r := range pa.ranks {
		r.fab.FlushTelemetry()
	}
	within := map[trace.SpanID]int{}
	for _, s := range rec.Ended() {
		within[s.Parent().SpanID()]++
	}
	seen := map[string]int{}
	for _, s := range rec.Ended() {
		if s.InstrumentationScope().Name != "coll" {
			continue
		}
		seen[s.Name()]++
		require.Equal(t, trace.SpanKindInternal, s.SpanKind())
		attrs := map[string]any{}
		for _, a := range s.Attributes() {
			attrs[string(a.Key)] = a.Value.AsInterface()
		}
		require.EqualValues(t, 4, attrs["coll.ranks"])
		switch s.Name() {
		case "allreduce":
			require.Equal(t, "ring", attrs["coll.algorithm"])
			require.EqualValues(t, 400, attrs["coll.bytes"])
			require.Len(t, s.Events(), 6, "rounds of a ring of four")
			require.Equal(t, 12, within[s.SpanContext().SpanID()], "a send and a receive each")
			require.True(t, s.Parent().IsValid(), "within the application's")
		case "bcast":
			require.Equal(t, "binomial", attrs["coll.algorithm"])
			require.NotZero(t, within[s.SpanContext().SpanID()])
		}
	}
	require.Equal(t, map[string]int{"allreduce": 4, "bcast": 4, "close": 4}, seen)
}

// TestTraceOfFailure: the span has the error.
func TestTraceOfFailure(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(rec))
	pa := newParty(t, 2, setup{seed: 1, coll: coll.Config{Tracer: provider.Tracer("coll")}})
	err := pa.runAll(func(ctx context.Context, c *coll.Comm) error {
		buf := make([]int32, 1+c.Rank())
		if coll.Allreduce(ctx, c, buf, buf, coll.Sum) == nil {
			t.Error("no error")
		}
		return nil
	}, true)
	require.NoError(t, err)
	for _, s := range rec.Ended() {
		require.Contains(t, s.Status().Description, "do not fit together")
	}
	require.Len(t, rec.Ended(), 2)
}
