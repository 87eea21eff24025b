package efa_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/efactor/efactor/api/efa"
)

// two makes two endpoints that know each other, in one process on a simulated
// fabric; between processes each side does its half and they exchange their
// addresses as text.
func two() (a, b *efa.Endpoint, toB efa.Addr, done func()) {
	fab, err := efa.Open(efa.Config{DeviceName: "sim"})
	if err != nil {
		log.Fatal(err)
	}
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	if err != nil {
		log.Fatal(err)
	}
	av := dom.NewAddressVector()
	queue, err := dom.NewQueue(0)
	if err != nil {
		log.Fatal(err)
	}
	eps := make([]*efa.Endpoint, 2)
	for i := range eps {
		eps[i], err = dom.NewEndpoint(efa.EndpointConfig{AV: av, SendQueue: queue, RecvQueue: queue})
		if err != nil {
			log.Fatal(err)
		}
		if err := eps[i].Enable(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	hs, err := av.InsertAll(eps[0].Address(), eps[1].Address())
	if err != nil {
		log.Fatal(err)
	}
	return eps[0], eps[1], hs[1], func() {
		for _, ep := range eps {
			if err := ep.Close(); err != nil {
				log.Fatal(err)
			}
		}
		if err := dom.Close(); err != nil {
			log.Fatal(err)
		}
		if err := fab.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

func ExampleEndpoint_Send() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	if err := a.Send(ctx, toB, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	msg, err := b.Recv(ctx, buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, from peer %d\n", buf[:msg.N], msg.From)
	// Output: hello, from peer 0
}

func ExampleEndpoint_RecvTag() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	for tag := range uint64(3) {
		if err := a.SendTag(ctx, toB, 100+tag, fmt.Appendf(nil, "message %d", tag)); err != nil {
			log.Fatal(err)
		}
	}
	buf := make([]byte, 64)
	// Exactly tag 102, then whatever is oldest.
	for _, m := range []efa.Match{{Tag: 102}, efa.AnyTag, efa.AnyTag} {
		msg, err := b.RecvTag(ctx, m, buf)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: %s\n", msg.Tag, buf[:msg.N])
	}
	// Output:
	// 102: message 2
	// 100: message 0
	// 101: message 1
}

func ExampleEndpoint_Post() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	buf := make([]byte, 64)
	if _, err := b.Post(&efa.RecvReq{Buf: buf, Token: "my receive"}); err != nil {
		log.Fatal(err)
	}
	if _, err := a.Post(&efa.SendReq{To: toB, Buf: []byte("posted"), HasData: true, Data: 7, Token: "my send"}); err != nil {
		log.Fatal(err)
	}
	queue := a.SendQueue() // both endpoints report to the same one
	var cs [1]efa.Completion
	seen := map[string]efa.Completion{}
	for len(seen) < 2 {
		if _, err := queue.Read(ctx, cs[:]); err != nil {
			log.Fatal(err)
		}
		seen[cs[0].Token.(string)] = cs[0]
	}
	sent, received := seen["my send"], seen["my receive"]
	fmt.Printf("%v %d bytes by %v\n", sent.Kind, sent.N, sent.Protocol)
	fmt.Printf("%v %q with data %d\n", received.Kind, buf[:received.N], received.Data)
	// Output:
	// sent 6 bytes by eager
	// received "posted" with data 7
}

func ExampleOpError() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	if err := a.Send(ctx, toB, make([]byte, 100)); err != nil {
		log.Fatal(err)
	}
	_, err := b.Recv(ctx, make([]byte, 64))
	var op *efa.OpError
	fmt.Println(errors.Is(err, efa.ErrTruncated), errors.As(err, &op))
	fmt.Println(op.N, op.Lost)
	// Output:
	// true true
	// 64 36
}
