// Hello is a server that answers messages, and its client.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/efactor/efactor/api/efa"
)

func main() {
	ctx := context.Background()
	ep, err := efa.OpenEndpoint(ctx, efa.Setup{}) // on shared memory
	if err != nil {
		log.Fatal(err)
	}
	defer ep.Close()
	if len(os.Args) > 1 {
		err = ask(ctx, ep, os.Args[1])
	} else {
		err = serve(ctx, ep)
	}
	if err != nil {
		log.Print(err)
	}
}

// serve answers every message, of anybody.
func serve(ctx context.Context, ep *efa.Endpoint) error {
	fmt.Println(ep.Address())
	for d, err := range ep.Messages(ctx) {
		if err != nil {
			return err
		}
		if err := ep.Reply(ctx, d.Message, append([]byte("hello, "), d.Body...)); err != nil {
			log.Print(err) // the client is gone
		}
		d.Release()
	}
	return nil
}

// ask sends a message to the server at an address and prints the answer.
func ask(ctx context.Context, ep *efa.Endpoint, address string) error {
	a, err := efa.ParseAddress(address)
	if err != nil {
		return err
	}
	server, err := ep.AddressVector().Insert(a)
	if err != nil {
		return err
	}
	if err := ep.Send(ctx, server, []byte("gopher")); err != nil {
		return err
	}
	answer, err := ep.Next(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", answer.Body)
	answer.Release()
	return nil
}
