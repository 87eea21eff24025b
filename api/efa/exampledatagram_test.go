package efa_test

import (
	"context"
	"fmt"
	"log"

	"github.com/efactor/efactor/api/efa"
)

// Datagrams: a send is over when the packet has left, and a packet that finds no receive
// posted is lost. So the sender repeats it until the receiver has it.
func ExampleEndpointConfig_datagrams() {
	a, _, _, done := two()
	defer done()
	ctx := context.Background()

	open := func() *efa.Endpoint {
		ep := orDie(a.Domain().NewEndpoint(efa.EndpointConfig{
			Datagram: true, AV: a.AddressVector(), SendQueue: a.SendQueue(), RecvQueue: a.RecvQueue(),
		}))
		if err := ep.Enable(ctx); err != nil {
			log.Fatal(err)
		}
		return ep
	}
	from, there := open(), open()
	defer from.Close()
	defer there.Close()
	to := orDie(a.AddressVector().Insert(there.Address()))

	buf := make([]byte, 16)
	orDie(there.PostRecv(&efa.RecvReq{Buf: buf}))
	for {
		if err := from.Send(ctx, to, []byte("hello")); err != nil {
			log.Fatal(err)
		}
		var cs [1]efa.Completion
		if n := there.RecvQueue().TryRead(cs[:]); n == 1 { // else it is lost, or still under way
			fmt.Printf("%s\n", buf[:cs[0].N])
			return
		}
	}
	// Output: hello
}
