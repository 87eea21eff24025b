package efadebug_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efadebug"
	"github.com/efactor/efactor/api/efatest"
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
