// Http is a net/http server and its client over shared memory instead of sockets: they
// are what they always were but for the listener and the dialer.
//
//	go run ./examples/http                      # prints the address that it listens at
//	go run ./examples/http -connect ADDRESS
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/efactor/efactor/api/efanet"
)

func main() {
	connect := flag.String("connect", "", "be the client of the server at this `address`")
	flag.Parse()
	run := serve
	if *connect != "" {
		run = request
	}
	if err := run(*connect); err != nil {
		log.Fatal(err)
	}
}

func serve(string) error {
	l, err := efanet.Listen(context.Background(), "") // instead of net.Listen
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	http.HandleFunc("/hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s\n", r.PathValue("name"))
	})
	return http.Serve(l, nil)
}

func request(addr string) error {
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return efanet.Dial(ctx, addr) },
	}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://server/hello/gopher")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Print(string(text))
	return err
}
