package efanet_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/efactor/efactor/api/efanet"
)

// net/http over endpoints. The server's listener and the client's dialer are all that is different.
func ExampleDialer() {
	l, err := efanet.Listen(context.Background(), "127.0.0.1:0") // what can be reached best is used
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s", r.URL.Path[1:])
	})}
	go server.Serve(l)
	defer server.Close()

	transport := &http.Transport{DialContext: new(efanet.Dialer).DialContext}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String() + "/world")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Println(string(text), err)
	// Output: hello, world <nil>
}
