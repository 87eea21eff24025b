package efa_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"github.com/efactor/efactor/api/efa"
)

// A server that answers all who ask, and its client. Each is a process of its own otherwise; the
// server has told where it is on a TCP port.
func ExampleEndpoint_Reply() {
	ctx := context.Background()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}

	server, err := efa.OpenEndpoint(ctx, efa.Setup{}) // shared memory of this host
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(ctx, port) }()
	go func() {
		buf := make([]byte, 64)
		m, err := server.Recv(ctx, buf)
		if err == nil {
			err = server.Reply(ctx, m, fmt.Appendf(nil, "hello, %s", buf[:m.N]))
		}
		ended <- err
	}()

	client, err := efa.OpenEndpoint(ctx, efa.Setup{})
	if err != nil {
		log.Fatal(err)
	}
	to, err := client.AddressVector().Resolve(ctx, port.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Send(ctx, to, []byte("world")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	m, err := client.Recv(ctx, buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf[:m.N])

	_ = port.Close() // ends Serve
	for range 2 {
		if err := <-ended; err != nil {
			log.Fatal(err)
		}
	}
	if err := errors.Join(client.Close(), server.Close()); err != nil {
		log.Fatal(err)
	}
	// Output: hello, world
}
