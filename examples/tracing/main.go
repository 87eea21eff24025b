// Tracing shows the life of every operation: two processes exchange messages of all
// kinds and use each other's memory, one of them slow for a while and not ready for
// another, and a waterfall diagram shows the events.
//
//	go run ./examples/tracing                                 in the terminal
//	go run ./examples/tracing -otlp http://localhost:4318     sent to a collector
//
// The spans of both sides of a message are in one trace although nothing was added to
// its packets. Look for the words matched (a receive met its message) and back-off (the
// receiver was not ready).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/examples/tracing/otlp"
	"github.com/efactor/efactor/examples/tracing/waterfall"
)

func main() {
	collector := flag.String("otlp", "", "send spans to the OpenTelemetry collector at this `URL` instead of drawing them")
	dir := flag.String("second", "", "be the second process, on the fabric in this `directory` (used by the program itself)")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if *dir != "" {
		err = second(ctx, *dir, *collector)
	} else {
		err = first(ctx, *collector)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tracing:", err)
		os.Exit(1)
	}
}

// party is one of the two processes.
type party struct {
	name   string
	dev    *efatest.ReceiveGate
	ep     *efa.Endpoint
	other  efa.Addr
	drawn  *waterfall.Collector // nil if a collector has the spans
	traces *sdktrace.TracerProvider
}

// open makes an endpoint whose operations are traced.
func open(ctx context.Context, name, dir, collector string) (p *party, err error) {
	p = &party{name: name}
	var out sdktrace.SpanExporter
	if collector != "" {
		out = otlp.New(collector)
	} else {
		p.drawn = &waterfall.Collector{Who: name}
		out = p.drawn
	}
	p.traces = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(out),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "efactor tracing example, "+name))),
	)
	raw, err := efa.OpenDevice("shm:" + dir)
	if err != nil {
		return nil, err
	}
	p.dev = efatest.NewReceiveGate(raw)
	p.ep, err = efa.OpenEndpoint(ctx, efa.Setup{
		Fabric:   efa.Config{Device: p.dev, Telemetry: efa.Telemetry{TracerProvider: p.traces}},
		Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{RecvQueue: 16, Credits: 8}}, // few buffers, soon full
	})
	return p, err
}

// meet reads the other's address from a line and writes our own.
func (p *party) meet(r io.Reader, w io.Writer) error {
	if _, err := fmt.Fprintln(w, p.ep.Address()); err != nil {
		return err
	}
	var line string
	if _, err := fmt.Fscanln(r, &line); err != nil {
		return fmt.Errorf("the other's address: %w", err)
	}
	addr, err := efa.ParseAddress(line)
	if err == nil {
		p.other, err = p.ep.AddressVector().Insert(addr)
	}
	return err
}

// close ends the endpoint, and with it the last spans, and exports them.
func (p *party) close(ctx context.Context) error {
	return errors.Join(p.ep.Shutdown(ctx), p.traces.Shutdown(ctx))
}
