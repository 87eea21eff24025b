package efadebug_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efadebug"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/api/launch"
)

// The page of an endpoint.
func ExamplePage() {
	ep, err := efa.OpenEndpoint(context.Background(), efa.Setup{})
	if err != nil {
		log.Fatal(err)
	}
	defer ep.Close()
	page := efadebug.New()
	defer page.Add("worker 3", ep)()
	mux := http.NewServeMux()
	mux.Handle("/debug/efa", page)

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost/debug/efa?json", nil))
	fmt.Println(answer.Code, bytes.Contains(answer.Body.Bytes(), []byte(`"worker 3"`)))
	// Output: 200 true
}

// The page of all ranks, at ?job.
func ExamplePage_Join() {
	ctx := context.Background()
	g, err := launch.Config{Launcher: "alone", Logger: slog.New(slog.DiscardHandler)}.Init(ctx) // launch.Init(ctx) finds the launcher
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	page := efadebug.New()
	leave := page.Join(g)
	defer leave()

	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost/debug/efa?job", nil))
	fmt.Println(answer.Code)
	// Output: 200
}

// The packets of a device, for Wireshark.
func ExampleNewCapture() {
	f, err := efatest.NewFabric(efatest.FabricConfig{})
	if err != nil {
		log.Fatal(err)
	}
	dev, err := f.OpenDevice(efatest.DeviceConfig{})
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	capture, err := efadebug.NewCapture(&file)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	ep, err := efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{Device: capture.Device(dev)}})
	if err != nil {
		log.Fatal(err)
	}
	self, err := ep.AddressVector().Insert(ep.Address())
	if err != nil {
		log.Fatal(err)
	}
	before := file.Len()
	fmt.Println(ep.Send(ctx, self, []byte("hello")), ep.Close(), capture.Close())
	fmt.Println(bytes.Contains(file.Bytes()[before:], []byte("hello")))
	// Output:
	// <nil> <nil> <nil>
	// true
}
