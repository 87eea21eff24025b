package efa_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// TestPostsAllocateNothing: a posted operation of each kind, as a user writes it with a struct
// in the call, allocates nothing.
func TestPostsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b := lab{dev: sim.DeviceConfig{}, mode: efa.ProgressManual}.open(t)
	there, ctx := alloc(t, b, 4096, remote), context.Background()
	at, buf := there.Remote(), make([]byte, 64)
	operand, what := efa.Elements([]uint64{1})
	result, _ := efa.Elements([]uint64{0})
	var sends [4]efa.SendReq
	var recvs [4]efa.RecvReq
	for i := range sends {
		sends[i], recvs[i] = efa.SendReq{To: a.peer, Buf: buf}, efa.RecvReq{Buf: there.Bytes()}
	}
	var cs [8]efa.Completion
	finish := func(s *side, n int) {
		for n > 0 {
			k, err := s.ep.SendQueue().Read(ctx, cs[:n])
			require.NoError(t, err)
			for _, c := range cs[:k] {
				require.NoError(t, c.Err)
			}
			n -= k
		}
	}
	for name, one := range map[string]func() error{
		"send and receive": func() error {
			if _, err := b.ep.PostRecv(&efa.RecvReq{Buf: there.Bytes(), Token: 1}); err != nil {
				return err
			}
			_, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Token: 1})
			finish(a, 1)
			finish(b, 1)
			return err
		},
		"sends and receives": func() error {
			if _, err := b.ep.PostRecvs(recvs[:]); err != nil {
				return err
			}
			_, err := a.ep.PostSends(sends[:])
			finish(a, len(sends))
			finish(b, len(recvs))
			return err
		},
		"write": func() error {
			_, err := a.ep.PostWrite(&efa.WriteReq{To: a.peer, At: at, Buf: buf, Level: efa.Delivered, Token: 1})
			finish(a, 1)
			return err
		},
		"read": func() error {
			_, err := a.ep.PostRead(&efa.ReadReq{From: a.peer, At: at, Buf: buf, Token: 1})
			finish(a, 1)
			return err
		},
		"atomic": func() error {
			_, err := a.ep.PostAtomic(&efa.AtomicReq{
				To: a.peer, At: at, Op: amo.Sum, Type: what, Form: amo.Fetch, Operand: operand, Result: result, Token: 1,
			})
			finish(a, 1)
			return err
		},
	} {
		for range 100 {
			require.NoError(t, one(), name)
		}
		require.Less(t, fewestAllocs(100, func() { _ = one() }), 0.1, name) // an error would leave nothing to read
	}
}

// TestPostSends: a batch is taken up to the first that there is no room for or that is
// wrong, in its order, and what it took beyond that is given back.
func TestPostSends(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{})
	q := newQueue(t, dom, 8)
	s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: newQueue(t, dom, 100), TxDepth: 6, RxDepth: 20})
	self, err := s.av.Insert(s.ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)
	reqs := make([]efa.SendReq, 10)
	for i := range reqs {
		reqs[i] = efa.SendReq{To: self, Buf: []byte{byte(i)}, Level: efa.Delivered, Token: uint64(i)}
	}
	n, err := s.ep.PostSends(reqs)
	require.Equal(t, 6, n)
	require.ErrorIs(t, err, efa.ErrAgain)
	recvs, bufs := make([]efa.RecvReq, 10), make([]byte, 10)
	for i := range recvs {
		recvs[i] = efa.RecvReq{Buf: bufs[i : i+1], Token: uint64(i)}
	}
	n, err = s.ep.PostRecvs(recvs)
	require.Equal(t, 10, n)
	require.NoError(t, err)
	read := func(q *efa.Queue, n int) {
		t.Helper()
		var cs [16]efa.Completion
		for i := 0; i < n; {
			k, err := q.Read(ctx, cs[:])
			require.NoError(t, err)
			for _, c := range cs[:k] {
				require.NoError(t, c.Err)
				require.EqualValues(t, i, c.Token)
				i++
			}
		}
		require.Zero(t, q.TryRead(cs[:]))
	}
	read(q, 6)
	require.Equal(t, []byte{0, 1, 2, 3, 4, 5, 0, 0, 0, 0}, bufs)

	reqs[2].Level = efa.Delivered + 1
	n, err = s.ep.PostSends(reqs[:4])
	require.Equal(t, 2, n)
	require.ErrorIs(t, err, efa.ErrInvalid)
	read(q, 2)
	n, err = s.ep.PostSends(nil)
	require.Zero(t, n)
	require.NoError(t, err)

	// The queue is what bounds these, and the places are all free again.
	for i := range reqs {
		reqs[i] = efa.SendReq{To: self, Level: efa.Delivered, Token: uint64(i)}
	}
	n, err = s.ep.PostSends(reqs[:2])
	require.NoError(t, err)
	require.Equal(t, 2, n)
	read(q, 2)
	n, err = s.ep.PostSends(reqs)
	require.Equal(t, 6, n)
	require.ErrorIs(t, err, efa.ErrAgain)
	n, err = s.ep.PostRecvs(recvs)
	require.Equal(t, 10, n)
	require.NoError(t, err)
	read(q, 6)
	require.NoError(t, s.ep.Shutdown(ctx))
	n, err = s.ep.PostSends(reqs)
	require.Zero(t, n)
	require.ErrorIs(t, err, efa.ErrClosed)
}
