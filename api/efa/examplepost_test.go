package efa_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// Many requests in one call, which wakes the shard once.
func ExampleEndpoint_PostSends() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	bufs := make([]byte, 24)
	var recvs [3]efa.RecvReq
	var sends [3]efa.SendReq
	for i, s := range []string{"one", "two", "three"} {
		recvs[i] = efa.RecvReq{Buf: bufs[8*i:][:8], Token: uint64(i)}
		sends[i] = efa.SendReq{To: toB, Buf: []byte(s), Quiet: true} // a completion is for a failure alone
	}
	fmt.Println(b.PostRecvs(recvs[:]))
	fmt.Println(a.PostSends(sends[:]))
	var cs [3]efa.Completion
	orDie(b.RecvQueue().ReadN(ctx, cs[:], 3))
	for _, c := range cs {
		fmt.Printf("%d: %s\n", c.Token, bufs[8*c.Token:][:c.N])
	}
	// Output:
	// 3 <nil>
	// 3 <nil>
	// 0: one
	// 1: two
	// 2: three
}

// A posted atomic, and a posted read of what it has left there.
func ExampleEndpoint_PostAtomic() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	mem := orDie(b.Domain().Alloc(8, efa.AccessRemoteRead|efa.AccessRemoteWrite))
	defer mem.Close()
	var was, is [1]uint64
	operand, kind := efa.Elements([]uint64{5})
	before, _ := efa.Elements(was[:])
	after, _ := efa.Elements(is[:])

	var cs [1]efa.Completion
	orDie(a.PostAtomic(&efa.AtomicReq{
		To: toB, At: mem.Remote(), Op: amo.Sum, Type: kind, Form: amo.Fetch, Operand: operand, Result: before,
	}))
	orDie(a.SendQueue().Read(ctx, cs[:]))
	fmt.Println(cs[0].Kind, cs[0].Err, was[0])
	orDie(a.PostRead(&efa.ReadReq{From: toB, At: mem.Remote(), Buf: after}))
	orDie(a.SendQueue().Read(ctx, cs[:]))
	fmt.Println(cs[0].Kind, cs[0].Err, is[0])
	// Output:
	// updated <nil> 0
	// fetched <nil> 5
}

// A message is claimed by a posted peek, and received when there is a buffer for it.
func ExampleEndpoint_PostPeek() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	orDie(b.PostPeek(&efa.PeekReq{Claim: true, Wait: true}))
	orDie(a.PostSend(&efa.SendReq{To: toB, Buf: []byte("hello"), Quiet: true}))
	var cs [1]efa.Completion
	orDie(b.RecvQueue().Read(ctx, cs[:]))
	fmt.Println(cs[0].Kind, cs[0].N)
	buf := make([]byte, cs[0].N)
	orDie(b.Claimed(&cs[0]).PostRecv(&efa.RecvReq{Buf: buf}))
	orDie(b.RecvQueue().Read(ctx, cs[:]))
	fmt.Printf("%v %s\n", cs[0].Kind, buf)
	// Output:
	// peeked 5
	// received hello
}

// A message is waited for, and then received into a buffer of its length.
func ExampleEndpoint_Claim() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	orDie(a.PostSend(&efa.SendReq{To: toB, Buf: []byte("hello"), Quiet: true}))
	c := orDie(b.Claim(ctx, efa.Wait))
	buf := make([]byte, c.Message.N)
	orDie(c.Recv(ctx, buf))
	fmt.Printf("%s\n", buf)
	// Output: hello
}

// An injected message: its buffer is free at once. Token names it in the completion that it has
// if it fails.
func ExampleToken() {
	a, b, toB, done := two()
	defer done()
	ctx := context.Background()

	buf := []byte("hello")
	fmt.Println(a.Send(ctx, toB, buf, efa.Inject, efa.Token(7)))
	clear(buf)
	there := make([]byte, 5)
	orDie(b.Recv(ctx, there))
	fmt.Printf("%s\n", there)
	// Output:
	// <nil>
	// hello
}

// Errors as libfabric's numbers, for programs that have its codes.
func ExampleNumber() {
	_, b, _, done := two()
	defer done()

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := b.Recv(ctx, make([]byte, 8))
	fmt.Println(efa.Number(err) == efa.ErrCanceled, efa.Number(nil) == 0, efa.Number(errors.New("any")) == efa.ErrOther)
	// Output: true true true
}
