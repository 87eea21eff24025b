package efatest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

// A minute of simulated time, in none of real time.
func ExampleWorld_WithTimeout() {
	var log strings.Builder
	w, err := efatest.New(efatest.Config{Seed: 1, Log: &log})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Go("patient", func(context.Context) error {
		if err := w.Sleep(time.Minute); err != nil {
			return err
		}
		w.Logf("it is %v", w.Elapsed())
		return w.Yield()
	})
	w.Go("hasty", func(ctx context.Context) error {
		soon, cancel := w.WithTimeout(ctx, time.Duration(1+w.Rand().IntN(50))*time.Second)
		defer cancel()
		for soon.Err() == nil {
			if err := w.Sleep(time.Second); err != nil {
				return err
			}
		}
		fmt.Println(errors.Is(context.Cause(soon), context.DeadlineExceeded), w.Elapsed() < time.Minute)
		return nil
	})
	fmt.Println(w.Run(), strings.Contains(log.String(), "it is 1m0s"))
	// Output:
	// true true
	// <nil> true
}

// A message gets through although two packets are refused and its receiver stops for a second.
func ExampleWorld_Fabric() {
	seen := 0
	w, err := efatest.New(efatest.Config{Seed: 7, Fabric: efatest.FabricConfig{Hook: func(efatest.Event) { seen++ }}})
	if err != nil {
		fmt.Println(err)
		return
	}
	dev, _ := w.Device(efatest.DeviceConfig{})
	cfg := efa.EndpointConfig{}
	efatest.KnobsOf(&cfg.Protocol).FirstMsgID = 1<<32 - 1 // the number after it is 0
	ep, err := efa.OpenEndpoint(context.Background(), efa.Setup{Fabric: efa.Config{Device: dev}, Endpoint: cfg})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Go("program", func(ctx context.Context) error {
		self, err := ep.AddressVector().Insert(ep.Address())
		if err != nil {
			return err
		}
		raw, _ := ep.Address().Raw("sim")
		refused, err := w.Fabric().AddRule(efatest.Rule{
			Fault: efatest.FaultRNR, WRs: []efatest.WR{efatest.WRSend}, To: efatest.Place{QPN: raw.QPN()}, Times: 2,
		})
		if err != nil {
			return err
		}
		dev.Pause(time.Second)
		if err := ep.Send(ctx, self, []byte("hello")); err != nil {
			return err
		}
		buf := make([]byte, 8)
		m, err := ep.Recv(ctx, buf)
		fmt.Printf("%s after %v, %d refusals\n", buf[:m.N], w.Elapsed().Truncate(time.Second), w.Fabric().Hits(refused))
		return err
	})
	fmt.Println(w.Run(), seen > 0)
	// Output:
	// hello after 1s, 2 refusals
	// <nil> true
}
