package coll_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

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

// The end of a collective, among other things that a rank waits for.
func ExampleRequest_Done() {
	ranks(2, func(ctx context.Context, c *coll.Comm) {
		r, err := coll.Ibarrier(ctx, c)
		if err != nil {
			log.Fatal(err)
		}
		select {
		case <-r.Done():
			if c.Rank() == 0 {
				fmt.Println(r.Err())
			}
		case <-time.After(time.Minute):
			log.Fatal("where are the others?")
		}
	})
	// Output: <nil>
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

// All collectives have a form that goes on beside the others.
func ExampleRequest_all() {
	const n, last = 3, 2
	counts := []int{1, 1, 1}
	ranks(n, func(ctx context.Context, c *coll.Comm) {
		mine := []int{10 + c.Rank()}
		each := []int{10 * c.Rank(), 10*c.Rank() + 1, 10*c.Rank() + 2} // an element for each rank
		var all []*coll.Request
		begin := func(r *coll.Request, err error) {
			if err != nil {
				log.Fatal(err)
			}
			all = append(all, r)
		}
		var gather, gatherv, allgatherv, alltoall, alltoallv [n]int
		var scatter, scatterv, reduce, reduceScatter, exscan [1]int
		begin(coll.Ibarrier(ctx, c))
		begin(coll.Igather(ctx, c, mine, gather[:], last))
		begin(coll.Igatherv(ctx, c, mine, gatherv[:], counts, last))
		begin(coll.Iallgatherv(ctx, c, mine, allgatherv[:], counts))
		begin(coll.Iscatter(ctx, c, each, scatter[:], 1))
		begin(coll.Iscatterv(ctx, c, each, counts, scatterv[:], 1))
		begin(coll.Ialltoall(ctx, c, each, alltoall[:]))
		begin(coll.Ialltoallv(ctx, c, each, counts, alltoallv[:], counts))
		begin(coll.Ireduce(ctx, c, mine, reduce[:], coll.Sum, last))
		begin(coll.IreduceScatter(ctx, c, each, reduceScatter[:], counts, coll.Sum))
		begin(coll.Iexscan(ctx, c, mine, exscan[:], coll.Sum))
		if err := coll.WaitAll(ctx, all...); err != nil {
			log.Fatal(err)
		}
		if c.Rank() == last {
			fmt.Println(gather, gatherv, allgatherv)
			fmt.Println(scatter, scatterv, alltoall, alltoallv)
			fmt.Println(reduce, reduceScatter, exscan)
		}
	})
	// Output:
	// [10 11 12] [10 11 12] [10 11 12]
	// [12] [12] [2 12 22] [2 12 22]
	// [33] [36] [21]
}

// Sets of ranks, which are made of others.
func ExampleRanks_Union() {
	even, err := coll.Every(2, 0, 7)
	if err != nil {
		log.Fatal(err)
	}
	low := coll.NewRanks(0, 1, 2, 3)
	fmt.Println(even.All(), even.Len())
	fmt.Println(even.Union(low).All())
	fmt.Println(even.Intersect(low).All(), even.Difference(low).All())
	rest := even.Clone()
	fmt.Println(rest.Remove(4), rest.All(), even.Has(4))
	// Output:
	// [0 2 4 6] 4
	// [0 2 4 6 1 3]
	// [0 2] [4 6]
	// true [0 2 6] true
}

// The operators, and one of the caller's, which takes the ranks in their order.
func ExampleOp() {
	ranks(3, func(ctx context.Context, c *coll.Comm) {
		reduce := func(op coll.Op[int], opts ...coll.Option) int {
			out := make([]int, 1)
			if err := coll.Allreduce(ctx, c, []int{c.Rank() + 2}, out, op, opts...); err != nil {
				log.Fatal(err)
			}
			return out[0]
		}
		digits := func(in, inout []int) {
			for i := range in {
				inout[i] += 10 * in[i] // in is of lower ranks
			}
		}
		results := []int{
			reduce(coll.Prod), reduce(coll.And), reduce(coll.Or), reduce(coll.Xor),
			reduce(coll.LAnd), reduce(coll.LOr), reduce(coll.LXor),
		}
		first := make([]int, 1)
		if err := coll.Scan(ctx, c, []int{c.Rank() + 2}, first, digits, coll.NonCommutative); err != nil {
			log.Fatal(err)
		}
		if c.Rank() == 1 {
			fmt.Println(results, first)
		}
	})
	// Output: [24 0 7 5 1 1 1] [23]
}

// Memory that the devices of other ranks reach by themselves.
func ExampleAlloc() {
	ranks(2, func(ctx context.Context, c *coll.Comm) {
		long, err := coll.Alloc[float64](c, 100_000)
		if err != nil {
			log.Fatal(err)
		}
		if c.Rank() == 0 {
			long[99_999] = 1.5
		}
		if err := coll.Bcast(ctx, c, long, 0); err != nil {
			log.Fatal(err)
		}
		if c.Rank() == 1 {
			fmt.Println(long[99_999])
		}
		if err := coll.Free(c, long); err != nil {
			log.Fatal(err)
		}
	})
	// Output: 1.5
}

// Every algorithm of a collective, in small pieces.
func ExampleAlgorithms() {
	ranks(3, func(ctx context.Context, c *coll.Comm) {
		buf := make([]byte, 300_000)
		for _, name := range coll.Algorithms("bcast") {
			if err := coll.Bcast(ctx, c, buf, 0, coll.Use(name), coll.Segment(64<<10)); err != nil {
				log.Fatal(err)
			}
		}
		if c.Rank() == 0 {
			fmt.Println(len(coll.Collectives()) > 0, len(coll.Algorithms("bcast")) > 1)
		}
	})
	// Output: true true
}
