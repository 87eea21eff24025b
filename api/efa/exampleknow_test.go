package efa_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/efactor/efactor/api/efa"
)

// A program counts along with the operations of its endpoint.
func ExampleCounter_Add() {
	ctx := context.Background()
	ep, done := alone(efa.EndpointConfig{})
	defer done()

	n := ep.Domain().NewCounter()
	n.Set(10)
	n.Add(2)
	fmt.Println(n.Wait(ctx, 12))
	n.AddFailed(1)
	var failed *efa.CounterError
	fmt.Println(errors.As(n.Wait(ctx, 13), &failed), failed.OK, failed.Failed)
	n.SetFailed(0)
	fmt.Println(n.Value())
	// Output:
	// <nil>
	// true 12 1
	// 12 0
}

// A program's own value for a peer, in place of a map by handle.
func ExampleAddressVector_InsertValue() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	av := a.AddressVector()
	fromA := orDie(av.InsertValue(a.Address(), "the client"))
	if err := a.Send(ctx, toB, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	m := orDie(b.Recv(ctx, make([]byte, 8)))
	fmt.Println(av.Value(m.From), m.From == fromA, av.Value(toB))
	fmt.Println(av.SetValue(m.From, "a friend"), av.Value(m.From))
	// Output:
	// the client true <nil>
	// <nil> a friend
}

// An address vector for peers of this host alone, and the device that leads to one.
func ExampleDomain_OpenAddressVector() {
	ep, done := alone(efa.EndpointConfig{})
	defer done()

	av := orDie(ep.Domain().OpenAddressVector(efa.AddressVectorConfig{LocalOnly: true}))
	defer av.Close()
	peer := orDie(av.Insert(ep.Address()))
	fmt.Println(orDie(av.Device(peer)) == ep.Domain().Limits().Device)
	// Output: true
}

// The handle of a client that nobody has inserted.
func ExampleEndpoint_Sender() {
	client, _, _, done := two()
	defer done()
	ctx := context.Background()

	dom := client.Domain()
	server := orDie(dom.NewEndpoint(efa.EndpointConfig{AV: dom.NewAddressVector()}))
	if err := server.Enable(ctx); err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	to := orDie(client.AddressVector().Insert(server.Address()))
	if err := client.Send(ctx, to, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	m := orDie(server.Recv(ctx, make([]byte, 8)))
	h := orDie(server.Sender(m))
	fmt.Println(orDie(server.AddressVector().Lookup(h)).String() == client.Address().String())
	// Output: true
}

// What was set, and what it would be by default.
func ExampleEndpoint_Settings() {
	ep, done := alone(efa.EndpointConfig{Protocol: efa.ProtocolConfig{MaxMedium: 20_000}})
	defer done()

	for _, s := range ep.Settings() {
		if s.Name == "MaxMedium" {
			fmt.Println(s.Name, s.EFA, s.Type, s.Value, s.Value != s.Default)
		}
	}
	// Output: MaxMedium FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE int 20000 true
}

// Writes that do not pass each other, however long they are.
func ExampleEndpointConfig_MaxOrdered() {
	cfg := efa.EndpointConfig{Order: efa.WriteAfterWrite}
	fmt.Println(cfg.MaxOrdered(efa.WriteAfterWrite) == math.MaxInt, cfg.MaxOrdered(efa.ReadAfterWrite))
	// Output: true 0
}

// Access for a time: the key ends, the region stays.
func ExampleMemoryRegion_Unexport() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	mem := orDie(b.Domain().Register([]byte("public"), efa.AccessRemoteRead))
	defer mem.Close()
	lent := orDie(mem.Export(efa.Export{Access: efa.AccessRemoteRead}))
	buf := make([]byte, 6)
	fmt.Println(a.Memory(toB, lent).Read(ctx, buf), string(buf))
	fmt.Println(mem.Unexport(lent))
	fmt.Println(errors.Is(a.Memory(toB, lent).Read(ctx, buf), efa.ErrAccess))
	// Output:
	// <nil> public
	// <nil>
	// true
}

// Memory of another device, which a program falls back from where it cannot be reached.
func ExampleDomain_RegisterDMABuf() {
	ep, done := alone(efa.EndpointConfig{})
	defer done()

	gpu := 0 // the file descriptor that the GPU's driver gave
	_, err := ep.Domain().RegisterDMABuf(gpu, 0, 4096, efa.AccessRemoteRead)
	fmt.Println(errors.Is(err, efa.ErrNotSupported)) // a simulated device
	// Output: true
}

// Spans of all that has ended, before the program ends.
func ExampleFabric_FlushTelemetry() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ep := orDie(efa.OpenEndpoint(ctx, efa.Setup{
		Fabric: efa.Config{DeviceName: "sim", Telemetry: efa.Telemetry{TracerProvider: provider}},
	}))
	defer ep.Close()
	self := orDie(ep.AddressVector().Insert(ep.Address()))
	if err := ep.Send(ctx, self, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	orDie(ep.Recv(ctx, make([]byte, 8)))
	ep.Domain().Fabric().FlushTelemetry()
	for _, s := range spans.GetSpans() {
		if s.Name == "send" {
			fmt.Println(s.Name, s.EndTime.Before(s.StartTime))
		}
	}
	// Output: send false
}
