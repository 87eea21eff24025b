package efa_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// orDie ends the example if there is an error.
func orDie[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// What OpenEndpoint does, in steps, for several endpoints on one device.
func ExampleOpen() {
	fab := orDie(efa.Open(efa.Config{DeviceName: "sim"})) // "auto" picks the best devices there are
	dom := orDie(fab.OpenDomain(efa.DomainConfig{}))
	av := dom.NewAddressVector()
	ep := orDie(dom.NewEndpoint(efa.EndpointConfig{AV: av}))
	if err := ep.Enable(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(fab.Name() == fab.Devices()[0].Name, av.Len())
	// Each is closed before what it was made of.
	fmt.Println(errors.Join(ep.Close(), av.Close(), dom.Close(), fab.Close()))
	// Output:
	// true 0
	// <nil>
}

// A peer with a name, which errors give.
func ExampleAddressVector_InsertNamed() {
	a, b, _, done := two()
	defer done()
	av := a.AddressVector()

	peer := orDie(av.InsertNamed(b.Address(), "rank 1 on node7"))
	err := a.Send(context.Background(), peer, nil, efa.Complete(99))
	fmt.Println(err)
	fmt.Println(orDie(av.Lookup(peer)).String() == b.Address().String())
	// Output:
	// efa: send, peer 1 (rank 1 on node7): invalid argument: there is no completion level 99
	// true
}

// Addresses are text for others, by whatever way.
func ExampleAddress() {
	a := orDie(efa.ParseAddress("shm://[fe80::1]:7:42"))
	raw, ok := a.Raw("shm")
	fmt.Println(a, raw.QPN(), ok)

	var b efa.Address // as encoding/json and package flag do it
	fmt.Println(b.UnmarshalText(orDie(a.MarshalText())), b.String() == a.String())
	// Output:
	// shm://[fe80::1]:7:42 7 true
	// <nil> true
}

// Completions of posted operations.
func ExampleQueue() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	buf := make([]byte, 8)
	orDie(b.PostRecv(&efa.RecvReq{Buf: buf, Token: 1}))
	orDie(a.PostSend(&efa.SendReq{To: toB, Buf: []byte("hello"), Token: 2}))
	cs := make([]efa.Completion, 2)
	orDie(a.SendQueue().ReadN(ctx, cs, 2)) // both endpoints have the same queue
	for _, c := range cs {
		if c.Err != nil {
			log.Fatal(c.Err)
		}
	}
	fmt.Println(cs[0].Token+cs[1].Token, string(buf[:5]), a.SendQueue().TryRead(cs))
	// Output: 3 hello 0
}

// A counter instead of completions: Wait returns after three messages have been received.
func ExampleCounter() {
	a, _, _, done := two()
	defer done()
	ctx := context.Background()

	dom := a.Domain()
	n := dom.NewCounter()
	ep := orDie(dom.NewEndpoint(efa.EndpointConfig{AV: a.AddressVector(), RecvQueue: a.RecvQueue(), RecvCounter: n}))
	if err := ep.Enable(ctx); err != nil {
		log.Fatal(err)
	}
	defer ep.Close()
	to := orDie(a.AddressVector().Insert(ep.Address()))
	for range 3 {
		orDie(ep.PostRecv(&efa.RecvReq{Quiet: true}))
		if err := a.Send(ctx, to, nil); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(n.Wait(ctx, 3))
	// Output: <nil>
}

// Memory that a program has already, and a part of it that peers may only read.
func ExampleDomain_Register() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	mem := orDie(b.Domain().Register([]byte("public, and secret"), efa.AccessRemoteRead))
	defer mem.Close()
	part := orDie(mem.Export(efa.Export{Len: 6, Access: efa.AccessRemoteRead}))
	buf := make([]byte, 6)
	fmt.Println(a.Memory(toB, part).Read(ctx, buf), string(buf))
	fmt.Println(errors.Is(a.Memory(toB, part).Write(ctx, buf, efa.Complete(efa.Delivered)), efa.ErrAccess))
	// Output:
	// <nil> public
	// true
}

// Delivered: the peer's application can see the bytes when Write returns. Fence: the flag is
// written after the data.
func ExampleMemory_Write() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	mem := orDie(b.Domain().Alloc(16, efa.AccessRemoteWrite))
	defer mem.Close()
	there := a.Memory(toB, mem.Remote())
	fmt.Println(there.Slice(0, 4).Write(ctx, []byte("data")))
	fmt.Println(there.Slice(4, 1).Write(ctx, []byte("!"), efa.Fence, efa.Complete(efa.Delivered)))
	fmt.Printf("%s\n", mem.Bytes()[:5])
	// Output:
	// <nil>
	// <nil>
	// data!
}

// An operation of a library that has no queue of its own.
func ExampleOp() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	buf := make([]byte, 8)
	op := orDie(b.Start(&efa.RecvReq{Buf: buf}))
	if err := a.Send(ctx, toB, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	c := orDie(op.Wait(ctx))
	fmt.Printf("%v: %s\n", c.Kind, buf[:c.N])
	// Output: received: hello
}

// A receive that nobody answers ends with its context, and its buffer is the caller's again.
func ExampleEndpoint_Recv_cancel() {
	_, b, _, done := two()
	defer done()

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := b.Recv(ctx, make([]byte, 8))
	fmt.Println(errors.Is(err, efa.ErrCanceled), errors.Is(err, context.DeadlineExceeded))
	fmt.Println(err)
	// Output:
	// true true
	// efa: recv: operation canceled: context deadline exceeded
}

// A look at a message before there is a buffer for it.
func ExampleEndpoint_Peek() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	_, err := b.Peek(ctx)
	fmt.Println(errors.Is(err, efa.ErrNoMessage))
	if err := a.Send(ctx, toB, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	m := orDie(b.Peek(ctx, efa.Wait))
	buf := make([]byte, m.N)
	orDie(b.Recv(ctx, buf))
	fmt.Printf("%s\n", buf)
	// Output:
	// true
	// hello
}

// What belongs to no operation: here a peer that asked for memory which it may not have.
func ExampleEndpoint_NextEvent() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	_, ok := b.TryEvent() // there is none yet
	fmt.Println(ok)
	secret := efa.KeyRemote(7, 8) // there is no such key
	_ = a.Memory(toB, secret).Read(ctx, make([]byte, 8))
	for {
		if e := orDie(b.NextEvent(ctx)); e.Kind == efa.AccessRefused {
			fmt.Println("peer", e.Peer, errors.Is(e.Err, efa.ErrNoKey))
			return
		}
	}
	// Output:
	// false
	// peer 0 true
}

// Two endpoints that share receives.
func ExampleRecvPool() {
	a, _, _, done := two()
	defer done()
	ctx := context.Background()

	pool := orDie(a.Domain().NewRecvPool(efa.RecvPoolConfig{AV: a.AddressVector(), Queue: a.RecvQueue()}))
	defer pool.Close()
	var cs [1]efa.Completion
	buf := make([]byte, 8)
	unwanted := orDie(pool.Post(&efa.RecvReq{Buf: buf}))
	if err := pool.Cancel(unwanted); err != nil {
		log.Fatal(err)
	}
	orDie(pool.Queue().Read(ctx, cs[:]))
	fmt.Println(errors.Is(cs[0].Err, efa.ErrCanceled))
	orDie(pool.Post(&efa.RecvReq{Buf: buf}))
	for range 2 {
		ep := orDie(a.Domain().NewEndpoint(efa.EndpointConfig{RecvPool: pool}))
		if err := ep.Enable(ctx); err != nil {
			log.Fatal(err)
		}
		defer ep.Close()
		to := orDie(a.AddressVector().Insert(ep.Address()))
		orDie(a.PostSend(&efa.SendReq{To: to, Buf: []byte("hello"), Quiet: true}))
	}
	orDie(pool.Queue().Read(ctx, cs[:])) // one message has come; the other waits for a receive
	fmt.Printf("%s\n", buf[:cs[0].N])
	// Output:
	// true
	// hello
}
