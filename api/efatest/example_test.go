package efatest_test

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// Two programs on a fabric that takes 5 us for a packet and gives them to the
// receiver in any order.
func Example() {
	w, err := efatest.New(efatest.Config{Seed: 42, Fabric: efatest.FabricConfig{Delay: 5000}})
	if err != nil {
		fmt.Println(err)
		return
	}
	open := func() (*efa.Endpoint, *efa.AddressVector) {
		dev, _ := w.Device(efatest.DeviceConfig{})
		fab, _ := efa.Open(efa.Config{Device: dev})
		dom, _ := fab.OpenDomain(efa.DomainConfig{})
		av := dom.NewAddressVector()
		ep, _ := dom.NewEndpoint(efa.EndpointConfig{AV: av})
		_ = ep.Enable(context.Background())
		return ep, av
	}
	alice, av := open()
	bob, _ := open()
	w.Go("alice", func(ctx context.Context) error {
		to, err := av.Insert(bob.Address())
		if err != nil {
			return err
		}
		return alice.Send(ctx, to, []byte("hello"))
	})
	w.Go("bob", func(ctx context.Context) error {
		buf := make([]byte, 100)
		m, err := bob.Recv(ctx, buf)
		fmt.Printf("%q after %v\n", buf[:m.N], w.Elapsed())
		return err
	})
	fmt.Println(w.Run())
	// Output:
	// "hello" after 5µs
	// <nil>
}
