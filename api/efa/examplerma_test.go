package efa_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/efactor/efactor/api/efa"
)

// A program offers memory by sending its Remote; its peer writes to it and reads it.
func ExampleMemory() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	// The side that has the memory.
	mem, err := b.Domain().Alloc(4096, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	name, err := mem.Remote().MarshalBinary() // to be sent to the peer
	if err != nil {
		log.Fatal(err)
	}

	// The other side.
	var at efa.Remote
	if err := at.UnmarshalBinary(name); err != nil {
		log.Fatal(err)
	}
	if err := a.Memory(toB, at).Write(ctx, []byte("hello, memory"), efa.Complete(efa.Delivered)); err != nil {
		log.Fatal(err)
	}
	word := make([]byte, 6)
	if err := a.Memory(toB, at.Slice(7, 6)).Read(ctx, word); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", word)
	err = a.Memory(toB, at.Slice(4090, 100)).Read(ctx, make([]byte, 100))
	fmt.Println(errors.Is(err, efa.ErrInvalid)) // that is only 6 bytes
	// Output:
	// memory
	// true
}

// Data tells the other side that the write is complete.
func ExampleData() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	mem, err := b.Domain().Alloc(64, efa.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	if err := a.Memory(toB, mem.Remote()).Write(ctx, []byte("row 7"), efa.Data(7)); err != nil {
		log.Fatal(err)
	}
	var cs [1]efa.Completion
	if _, err := b.RecvQueue().Read(ctx, cs[:]); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v of %d bytes with data %d: %s\n", cs[0].Kind, cs[0].N, cs[0].Data, mem.Bytes()[:cs[0].N])
	// Output: remote write of 5 bytes with data 7: row 7
}

// Two writes with value 7 are one wait, in whatever order they arrive.
func ExampleArrivals() {
	a, done := alone(efa.EndpointConfig{Arrivals: &efa.ArrivalsConfig{Expected: []efa.Values{{First: 0, Last: 31}}}})
	defer done()
	ctx := context.Background()

	self, err := a.AddressVector().Insert(a.Address()) // in a real program, two processes
	if err != nil {
		log.Fatal(err)
	}
	mem, err := a.Domain().Alloc(64, efa.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	data, err := efa.DataLayout{}.Data(7, a.Arrivals().Generation())
	if err != nil {
		log.Fatal(err)
	}
	for i, word := range []string{"layer", "seven"} {
		there := a.Memory(self, mem.Remote().Slice(uint64(8*i), 5))
		if err := there.Write(ctx, []byte(word), efa.Data(data)); err != nil {
			log.Fatal(err)
		}
	}
	if err := a.Arrivals().Wait(ctx, 7, 2, self); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s\n", mem.Bytes()[:5], mem.Bytes()[8:13])
	fmt.Println(a.Arrivals().Count(7), a.Arrivals().Stats().Late)
	// Output:
	// layer seven
	// 2 0
}

// One write from two pieces of local memory into three of the peer's.
func ExampleWriteReq_lists() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	mem, err := b.Domain().Alloc(64, efa.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	at := mem.Remote()
	op, err := a.Start(&efa.WriteReq{
		To:    toB,
		Bufs:  [][]byte{[]byte("gather"), []byte("scatter")},
		Ats:   []efa.Remote{at.Slice(0, 3), at.Slice(16, 3), at.Slice(32, 7)},
		Level: efa.Delivered,
	})
	if err == nil {
		_, err = op.Wait(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s %s\n", mem.Bytes()[:3], mem.Bytes()[16:19], mem.Bytes()[32:39])
	// Output: gat her scatter
}

// A counter that several endpoints draw numbers from.
func ExampleCell_FetchAdd() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	mem, err := b.Domain().Alloc(8, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	for range 3 {
		ticket, err := efa.NewCell[uint64](a.Memory(toB, mem.Remote())).FetchAdd(ctx, uint64(1))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ticket)
	}
	// Output:
	// 0
	// 1
	// 2
}

// A lock that one of several endpoints has, in memory that all reach.
func ExampleCell_Swap() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	mem, err := b.Domain().Alloc(8, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	lock := efa.NewCell[uint64](a.Memory(toB, mem.Remote()))
	fmt.Println(lock.Swap(ctx, 1)) // it was free
	fmt.Println(lock.Swap(ctx, 1)) // another has it
	// Output:
	// 0 <nil>
	// 1 <nil>
}

// A message is looked at before there is a buffer for it.
func ExampleEndpoint_ClaimTag() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	if err := a.SendTag(ctx, toB, 5, []byte("of a length that nobody knew")); err != nil {
		log.Fatal(err)
	}
	c, err := b.ClaimTag(ctx, efa.AnyTag)
	for errors.Is(err, efa.ErrNoMessage) {
		c, err = b.ClaimTag(ctx, efa.AnyTag)
	}
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, c.Message.N)
	if _, err := c.Recv(ctx, buf); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("tag %d, %d bytes: %s\n", c.Message.Tag, len(buf), buf)
	// Output: tag 5, 28 bytes: of a length that nobody knew
}

// alone makes one endpoint on a simulated fabric.
func alone(cfg efa.EndpointConfig) (*efa.Endpoint, func()) {
	ep, err := efa.OpenEndpoint(context.Background(), efa.Setup{Fabric: efa.Config{DeviceName: "sim"}, Endpoint: cfg})
	if err != nil {
		log.Fatal(err)
	}
	return ep, func() {
		if err := ep.Close(); err != nil {
			log.Fatal(err)
		}
	}
}
