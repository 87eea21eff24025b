package coll_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
)

// ranks calls f as each of n ranks, which are goroutines here. A program has one process for each,
// with the endpoint and the peers of launch.Init.
func ranks(n int, f func(ctx context.Context, c *coll.Comm)) {
	ctx := context.Background()
	eps, addresses := make([]*efa.Endpoint, n), make([]efa.Address, n)
	for i := range eps {
		var err error
		if eps[i], err = efa.OpenEndpoint(ctx, efa.Setup{}); err != nil {
			log.Fatal(err)
		}
		defer eps[i].Close()
		addresses[i] = eps[i].Address()
	}
	var all sync.WaitGroup
	for i, ep := range eps {
		peers, err := ep.AddressVector().InsertAll(addresses...)
		if err != nil {
			log.Fatal(err)
		}
		all.Go(func() {
			c, err := coll.New(coll.Config{Endpoint: ep, Rank: i, Peers: peers})
			if err != nil {
				log.Fatal(err)
			}
			f(ctx, c)
			_ = c.Close(ctx)
		})
	}
	all.Wait()
}

func ExampleAllreduce() {
	ranks(3, func(ctx context.Context, c *coll.Comm) {
		sum := make([]int, 2)
		err := coll.Allreduce(ctx, c, []int{c.Rank(), 1}, sum, coll.Sum)
		if c.Rank() == 0 {
			fmt.Println(sum, err)
		}
	})
	// Output: [3 3] <nil>
}

func ExampleBcast() {
	ranks(3, func(ctx context.Context, c *coll.Comm) {
		buf := make([]byte, 5)
		if c.Rank() == 0 {
			copy(buf, "hello")
		}
		if err := coll.Bcast(ctx, c, buf, 0); err != nil {
			log.Fatal(err)
		}
		if c.Rank() == 2 {
			fmt.Printf("%s\n", buf)
		}
	})
	// Output: hello
}

// All have come when Barrier returns.
func ExampleBarrier() {
	ranks(2, func(ctx context.Context, c *coll.Comm) {
		if err := coll.Barrier(ctx, c); err != nil {
			log.Fatal(err)
		}
		if c.Rank() == 0 {
			fmt.Println("all", c.Size(), "are here")
		}
	})
	// Output: all 2 are here
}

// Two groups, of the even and of the odd ranks.
func ExampleComm_Split() {
	ranks(4, func(ctx context.Context, c *coll.Comm) {
		half, err := c.Split(ctx, c.Rank()%2, c.Rank())
		if err != nil {
			log.Fatal(err)
		}
		defer half.Close(ctx)
		all := make([]int, half.Size())
		if err := coll.Allgather(ctx, half, []int{c.Rank()}, all); err != nil {
			log.Fatal(err)
		}
		if c.Rank() == 3 {
			fmt.Println(all)
		}
	})
	// Output: [1 3]
}

// A collective that goes on while the rank does something else.
func ExampleRequest() {
	ranks(2, func(ctx context.Context, c *coll.Comm) {
		most := make([]float64, 1)
		r, err := coll.Iallreduce(ctx, c, []float64{float64(c.Rank())}, most, coll.Max)
		if err != nil {
			log.Fatal(err)
		}
		if err := r.Wait(ctx); err == nil && c.Rank() == 0 {
			fmt.Println(most)
		}
	})
	// Output: [1]
}

// A group of some of the ranks.
func ExampleRanks() {
	ranks(4, func(ctx context.Context, c *coll.Comm) {
		some, err := c.Group(ctx, coll.NewRanks(3, 1))
		if err != nil {
			log.Fatal(err)
		}
		if some == nil {
			return // this rank is in no group
		}
		defer some.Close(ctx)
		if c.Rank() == 3 {
			fmt.Println("rank", some.Rank(), "of", some.Size())
		}
	})
	// Output: rank 0 of 2
}

// Several collectives that go on at the same time.
func ExampleWaitAll() {
	ranks(3, func(ctx context.Context, c *coll.Comm) {
		all, sum, word := make([]int, 3), make([]int, 1), make([]byte, 5)
		if c.Rank() == 0 {
			copy(word, "hello")
		}
		gather, err := coll.Iallgather(ctx, c, []int{c.Rank()}, all)
		if err != nil {
			log.Fatal(err)
		}
		scan, err := coll.Iscan(ctx, c, []int{c.Rank()}, sum, coll.Sum)
		if err != nil {
			log.Fatal(err)
		}
		bcast, err := coll.Ibcast(ctx, c, word, 0)
		if err != nil {
			log.Fatal(err)
		}
		if err := coll.WaitAll(ctx, gather, scan, bcast); err == nil && c.Rank() == 2 {
			fmt.Println(all, sum, string(word))
		}
	})
	// Output: [0 1 2] [3] hello
}
