package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Exporter posts spans to a collector. It is an sdktrace.SpanExporter.
type Exporter struct {
	url    string
	client http.Client
}

// New returns an exporter to the collector at base, such as http://localhost:4318.
func New(base string) *Exporter {
	return &Exporter{url: strings.TrimSuffix(base, "/") + "/v1/traces", client: http.Client{Timeout: 10 * time.Second}}
}

// ExportSpans posts a batch; an answer other than 2xx is an error.
func (e *Exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := json.Marshal(encode(spans))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := e.client.Do(req)
	if err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("otlp: %s: %s: %s", e.url, res.Status, bytes.TrimSpace(answer))
	}
	return err
}

// Shutdown has nothing to do: nothing is kept.
func (e *Exporter) Shutdown(context.Context) error { return nil }
