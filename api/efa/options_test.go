package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestLevels: a completion level that there is not is refused in every call that takes one.
func TestLevels(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{})
	q := newQueue(t, dom, 16)
	s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
	self, err := s.av.Insert(s.ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)
	level := efa.Delivered + 1
	o := efa.Complete(level)
	require.ErrorIs(t, s.ep.Send(ctx, self, nil, o), efa.ErrInvalid)
	require.ErrorIs(t, second(s.ep.Recv(ctx, nil, o)), efa.ErrInvalid)
	require.ErrorIs(t, s.ep.Memory(self, efa.Remote{}).Write(ctx, nil, o), efa.ErrInvalid)
	require.ErrorIs(t, efa.NewCell[float64](s.ep.Memory(self, efa.RawRemote(0, 8, 0))).Add(ctx, 1, o), efa.ErrInvalid)
	require.ErrorIs(t, second(s.ep.Peek(ctx, o)), efa.ErrInvalid)
	for _, r := range []efa.Request{
		&efa.SendReq{To: self, Level: level}, &efa.WriteReq{To: self, Level: level}, &efa.AtomicReq{To: self, Level: level},
	} {
		require.ErrorIs(t, second(post(s.ep, r)), efa.ErrInvalid)
	}
}

// TestWishes: what a request wishes holds for it alone.
func TestWishes(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{})
	q := newQueue(t, dom, 16)
	s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
	self, err := s.av.Insert(s.ep.Address())
	require.NoError(t, err)
	nobody, err := s.av.Insert(simAddress(1))
	require.NoError(t, err)
	ctx := testContext(t)
	read := func() efa.Completion {
		var cs [1]efa.Completion
		_, err := q.Read(ctx, cs[:])
		require.NoError(t, err)
		return cs[0]
	}
	directed, err := s.ep.PostRecv(&efa.RecvReq{From: nobody, Directed: true, Token: 1})
	require.NoError(t, err)
	_, err = s.ep.PostRecv(&efa.RecvReq{From: efa.AnyAddr, Directed: true, Token: 2})
	require.NoError(t, err)
	_, err = s.ep.PostSend(&efa.SendReq{To: self, Quiet: true, HasData: true, Data: 5})
	require.NoError(t, err)
	c := read()
	require.NoError(t, c.Err)
	require.Equal(t, efa.Received, c.Kind)
	require.Equal(t, "received", c.Kind.String())
	require.EqualValues(t, 2, c.Token)
	require.Equal(t, []any{true, uint64(5)}, []any{c.HasData, c.Data})
	require.NoError(t, s.ep.Cancel(directed))
	require.EqualValues(t, 1, read().Token)

	require.NoError(t, s.ep.Send(ctx, self, []byte{1}, efa.Inject, efa.Data(6)))
	m, err := s.ep.Recv(ctx, make([]byte, 1), efa.From(nobody), efa.From(efa.AnyAddr))
	require.NoError(t, err)
	require.EqualValues(t, 6, m.Data)
	require.Equal(t, self, m.From)
}

// TestPieces: a message is gathered from pieces and scattered over others; pieces
// beyond its end stay as they were.
func TestPieces(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx := testContext(t)
	for _, size := range []int{0, 10, 9000, 200_000} {
		p := pattern(size)
		send, err := a.ep.Start(&efa.SendReq{To: a.peer, Bufs: [][]byte{p[:size/3], nil, p[size/3 : size/2], p[size/2:]}})
		require.NoError(t, err)
		q := make([]byte, size+4)
		recv, err := b.ep.Start(&efa.RecvReq{Bufs: [][]byte{nil, q[:size/4], q[size/4 : size/4+1], q[size/4+1:]}})
		require.NoError(t, err)
		_, err = send.Wait(ctx)
		require.NoError(t, err)
		c, err := recv.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, size, c.N)
		require.Equal(t, append(p, 0, 0, 0, 0), q)
	}
	go func() { _ = a.ep.Send(ctx, a.peer, pattern(100)) }() // the receiver tells
	x, y := make([]byte, 30), make([]byte, 30)
	recv, err := b.ep.Start(&efa.RecvReq{Bufs: [][]byte{x, y}})
	require.NoError(t, err)
	_, err = recv.Wait(ctx)
	var oe *efa.OpError
	require.ErrorAs(t, err, &oe)
	require.ErrorIs(t, err, efa.ErrTruncated)
	require.Equal(t, []int{60, 40}, []int{oe.N, oe.Lost})
	require.Equal(t, pattern(60), append(x, y...))
}
