package efa_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestInjectCopies: the buffer is free when the call returns, whatever becomes of
// the message, and at the limit.
func TestInjectCopies(t *testing.T) {
	a, b, _, _ := posted(t, 64, efa.EndpointConfig{})
	ctx := testContext(t)
	limit := a.dom.Limits().MaxInject
	require.Equal(t, 4096, limit)
	sizes := []int{0, 1, 8, 100, limit}
	const rounds = 100
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			p := make([]byte, limit)
			for i := range rounds * len(sizes) {
				p := p[:sizes[i%len(sizes)]]
				for j := range p {
					p[j] = byte(i)
				}
				if i%2 == 0 {
					if err := a.ep.Send(ctx, a.peer, p, efa.Inject); err != nil {
						return err
					}
				} else if op, err := a.ep.Start(&efa.SendReq{To: a.peer, Bufs: [][]byte{p[:len(p)/2], p[len(p)/2:]}, Inject: true}); err != nil {
					return err
				} else if clear(p); i%3 == 0 {
					if _, err := op.Wait(ctx); err != nil {
						return err
					}
				}
				clear(p)
			}
			return nil
		}()
	}()
	q := make([]byte, limit)
	for i := range rounds * len(sizes) {
		m, err := b.ep.Recv(ctx, q)
		require.NoError(t, err)
		require.Equal(t, sizes[i%len(sizes)], m.N)
		for _, c := range q[:m.N] {
			require.Equal(t, byte(i), c, "message %d", i)
		}
	}
	require.NoError(t, <-done)

	over := make([]byte, limit+1)
	err := a.ep.Send(ctx, a.peer, over, efa.Inject)
	require.ErrorIs(t, err, efa.ErrMsgSize)
	require.Contains(t, err.Error(), fmt.Sprint(limit+1))
	require.Contains(t, err.Error(), fmt.Sprint("at most ", limit))
	_, err = a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: over, Inject: true})
	require.ErrorIs(t, err, efa.ErrMsgSize)
}

// TestInjectAllocations: copies are used again.
func TestInjectAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b, _, qb := posted(t, 64, efa.EndpointConfig{})
	p, q := make([]byte, 1000), make([]byte, 1000)
	ctx := context.Background()
	recv := efa.RecvReq{Buf: q}
	var cs [4]efa.Completion
	one := func() {
		_, err := b.ep.PostRecv(&recv)
		require.NoError(t, err)
		require.NoError(t, a.ep.Send(ctx, a.peer, p, efa.Inject))
		_, err = qb.Read(ctx, cs[:])
		require.NoError(t, err)
	}
	for range 200 {
		one()
	}
	require.Less(t, fewestAllocs(500, one), 1.0)
}

// TestSilentFailures: Quiet and injected operations that fail are in the queue,
// each once, though they had no place there; one that nobody reads does not grow
// for ever.
func TestSilentFailures(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	q, counter := newQueue(t, dom, 2), dom.NewCounter()
	s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, SendCounter: counter})
	ctx := testContext(t)
	nobody, err := s.av.Insert(simAddress(77)) // no endpoint is there
	require.NoError(t, err)
	for i := range uint64(10) {
		_, err := s.ep.PostSend(&efa.SendReq{To: nobody, Buf: []byte{1}, Inject: true, Token: i})
		require.NoError(t, err)
		_, err = s.ep.PostSend(&efa.SendReq{To: nobody, Quiet: true, Token: 10 + i})
		require.NoError(t, err)
	}
	seen := map[uint64]bool{}
	var cs [8]efa.Completion
	for len(seen) < 20 {
		n, err := q.Read(ctx, cs[:])
		require.NoError(t, err)
		for _, c := range cs[:n] {
			require.ErrorIs(t, c.Err, efa.ErrPeerFailed)
			require.False(t, seen[c.Token], "%v has two outcomes", c.Token)
			seen[c.Token] = true
		}
	}
	require.Zero(t, q.TryRead(cs[:]))
	_, failed := counter.Value()
	require.EqualValues(t, 20, failed)

	const many = 6000
	for range many {
		require.NoError(t, s.ep.Send(ctx, nobody, nil, efa.Inject))
	}
	require.NoError(t, s.ep.Shutdown(ctx))
	_, failed = counter.Value()
	require.EqualValues(t, 20+many, failed)
	kept := 0
	for n := q.TryRead(cs[:]); n > 0; n = q.TryRead(cs[:]) {
		kept += n
	}
	require.Equal(t, 4096, kept)
}
