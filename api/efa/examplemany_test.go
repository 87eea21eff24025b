package efa_test

import (
	"context"
	"fmt"
	"log"

	"github.com/efactor/efactor/api/efa"
)

// Messages of any size, one after the other, in buffers that the endpoint lends.
func ExampleEndpoint_Messages() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	go func() {
		for _, n := range []int{5, 100_000, 0} {
			if err := a.Send(ctx, toB, make([]byte, n)); err != nil {
				log.Print(err)
			}
		}
	}()
	for msg, err := range b.Messages(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(msg.Body)) // it is given back at the next step
		if msg.N == 0 {
			break
		}
	}
	// Output:
	// 5
	// 100000
	// 0
}

// Tagged messages, which outlive the loop.
func ExampleEndpoint_MessagesTag() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	for tag, s := range []string{"one", "two"} {
		if err := a.SendTag(ctx, toB, uint64(tag), []byte(s)); err != nil {
			log.Fatal(err)
		}
	}
	var kept []efa.Delivery
	for msg, err := range b.MessagesTag(ctx, efa.AnyTag) {
		if err != nil {
			log.Fatal(err)
		}
		msg.Keep()
		if kept = append(kept, msg); len(kept) == 2 {
			break
		}
	}
	for _, msg := range kept {
		fmt.Printf("%d: %s\n", msg.Tag, msg.Body)
		msg.Release()
	}
	// Output:
	// 0: one
	// 1: two
}

// One message of any size, which is kept until it is released.
func ExampleEndpoint_Next() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	if err := a.Send(ctx, toB, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	msg, err := b.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", msg.Body)
	msg.Release()
	// Output: hello
}

// One buffer takes many messages, until less than MinLeft bytes are left.
func ExampleEndpoint_PostRecv_multi() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	buf := make([]byte, 4*efa.MultiRecvAlign)
	if _, err := b.PostRecv(&efa.RecvReq{Buf: buf, Multi: true, MinLeft: 8}); err != nil {
		log.Fatal(err)
	}
	for _, s := range []string{"one", "two", "thirteen", "four"} {
		if err := a.Send(ctx, toB, []byte(s)); err != nil {
			log.Fatal(err)
		}
	}
	for {
		var cs [1]efa.Completion
		if _, err := b.RecvQueue().Read(ctx, cs[:]); err != nil {
			log.Fatal(err)
		}
		c := &cs[0]
		if c.Kind == efa.Released {
			fmt.Println("released:", c.N)
			return
		}
		fmt.Printf("%d: %s\n", c.Offset, buf[c.Offset:][:c.N])
	}
	// Output:
	// 0: one
	// 8: two
	// 16: thirteen
	// 24: four
	// released: 32
}
