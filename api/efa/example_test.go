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
	ctx := context.Background()
	a, err := efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{DeviceName: "sim"}})
	if err != nil {
		log.Fatal(err)
	}
	av, queue := a.AddressVector(), a.SendQueue()
	b, err = a.Domain().NewEndpoint(efa.EndpointConfig{AV: av, SendQueue: queue, RecvQueue: queue})
	if err == nil {
		err = b.Enable(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	hs, err := av.InsertAll(a.Address(), b.Address())
	if err != nil {
		log.Fatal(err)
	}
	return a, b, hs[1], func() {
		if err := errors.Join(b.Close(), a.Close()); err != nil {
			log.Fatal(err)
		}
	}
}

// An endpoint with all that it needs, which talks to itself; others would give it their
// addresses as text.
func ExampleOpenEndpoint() {
	ctx := context.Background()
	ep, err := efa.OpenEndpoint(ctx, efa.Setup{}) // shared memory of this host
	if err != nil {
		log.Fatal(err)
	}
	defer ep.Close()
	address, err := efa.ParseAddress(ep.Address().String())
	if err != nil {
		log.Fatal(err)
	}
	peer, err := ep.AddressVector().Insert(address)
	if err != nil {
		log.Fatal(err)
	}
	if err := ep.Send(ctx, peer, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 64)
	msg, err := ep.Recv(ctx, buf)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", buf[:msg.N])
	// Output: hello
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

func ExampleEndpoint_PostSend() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	buf := make([]byte, 64)
	if _, err := b.PostRecv(&efa.RecvReq{Buf: buf, Token: 1}); err != nil {
		log.Fatal(err)
	}
	if _, err := a.PostSend(&efa.SendReq{To: toB, Buf: []byte("posted"), HasData: true, Data: 7, Token: 2}); err != nil {
		log.Fatal(err)
	}
	queue := a.SendQueue() // both endpoints report to the same one
	var cs [1]efa.Completion
	seen := map[uint64]efa.Completion{}
	for len(seen) < 2 {
		if _, err := queue.Read(ctx, cs[:]); err != nil {
			log.Fatal(err)
		}
		seen[cs[0].Token] = cs[0]
	}
	sent, received := seen[2], seen[1]
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

// The devices of this host that move memory by themselves, best first. Their names are for
// Config.DeviceName. On a host with EFA the first is an EFA device.
func ExampleDevices() {
	list, err := efa.Devices(efa.Hints{Usable: true, RDMARead: true})
	if err != nil {
		log.Fatal(err) // in one line what to do
	}
	best := list[0].Clone() // shares nothing with the list
	if best.NIC != nil {
		fmt.Println("PCI", best.NIC.PCI, "on NUMA node", best.NIC.NUMANode)
	}
	fmt.Println(best.Err, best.Limits.RDMARead)
	// Output: <nil> true
}
