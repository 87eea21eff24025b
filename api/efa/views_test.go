package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestViews: a view's options hold for blocking and for posted operations, and
// those of a call come on top.
func TestViews(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{})
	q := newQueue(t, dom, 16)
	s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
	self, err := s.av.Insert(s.ep.Address())
	require.NoError(t, err)
	nobody, err := s.av.Insert(simAddress(1))
	require.NoError(t, err)
	ctx := testContext(t)
	v := s.ep.With(efa.Token("view"), efa.Data(5), efa.From(nobody))
	read := func() efa.Completion {
		var cs [1]efa.Completion
		_, err := q.Read(ctx, cs[:])
		require.NoError(t, err)
		return cs[0]
	}

	directed, err := v.Post(&efa.RecvReq{})
	require.NoError(t, err)
	_, err = v.Post(&efa.RecvReq{From: efa.AnyAddr, Directed: true, Token: "own"})
	require.NoError(t, err)
	_, err = v.With(efa.Quiet).Post(&efa.SendReq{To: self})
	require.NoError(t, err)
	c := read()
	require.NoError(t, c.Err)
	require.Equal(t, efa.Received, c.Kind)
	require.Equal(t, "received", c.Kind.String())
	require.Equal(t, "own", c.Token)
	require.Equal(t, []any{true, uint64(5)}, []any{c.HasData, c.Data})
	require.NoError(t, v.Cancel(directed))
	require.Equal(t, "view", read().Token)

	require.NoError(t, v.With(efa.Inject).Send(ctx, self, []byte{1}, efa.Data(6)))
	m, err := v.Recv(ctx, make([]byte, 1), efa.From(efa.AnyAddr))
	require.NoError(t, err)
	require.EqualValues(t, 6, m.Data)
	require.Equal(t, self, m.From)

	for o, want := range map[efa.OpOption]error{
		efa.Fence: efa.ErrNotSupported, efa.Complete(efa.Matched + 1): efa.ErrInvalid,
	} {
		require.ErrorIs(t, s.ep.Send(ctx, self, nil, o), want)
		require.ErrorIs(t, second(s.ep.Recv(ctx, nil, o)), want)
		require.ErrorIs(t, s.ep.Write(ctx, self, efa.Remote{}, nil, o), want)
		require.ErrorIs(t, s.ep.Read(ctx, self, efa.Remote{}, nil, o), want)
		require.ErrorIs(t, efa.Add(ctx, s.ep, self, efa.Remote{Len: 8}, 1.0, o), want)
		require.ErrorIs(t, second(s.ep.Peek(ctx, o)), want)
		for _, r := range []efa.Request{
			&efa.SendReq{To: self}, &efa.RecvReq{}, &efa.WriteReq{To: self}, &efa.ReadReq{From: self}, &efa.AtomicReq{To: self},
		} {
			require.ErrorIs(t, second(s.ep.With(o).Post(r)), want)
		}
	}
	require.Equal(t, s.ep.Address(), v.Address())
	require.Same(t, dom, v.Domain())
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
