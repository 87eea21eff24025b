package directtest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// datagram opens an endpoint of datagrams.
func (w *world) datagram() *side { return w.side(efa.EndpointConfig{Datagram: true}) }

// deliver sends a datagram until it is received, and returns that.
func (s *side) deliver(b *side, r efa.SendReq) efa.Completion {
	s.t.Helper()
	buf := make([]byte, s.mtu())
	b.recv(buf, 1)
	for {
		r.To, r.Token = s.peer, 2
		_, err := s.ep.PostSend(&r)
		require.NoError(s.t, err)
		s.ok(efa.Sent, 2)
		short, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
		var c [1]efa.Completion
		_, err = b.ep.RecvQueue().Read(short, c[:])
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && b.ctx.Err() == nil: // it was lost
		case err != nil || c[0].Err != nil:
			require.NoError(s.t, errors.Join(err, c[0].Err))
		case bytes.Equal(buf[:c[0].N], r.Buf):
			return c[0]
		default: // an earlier one that was sent twice
			b.recv(buf, 1)
		}
	}
}

// datagrams: all sizes arrive in both directions, also from a sender in no address vector, and
// what they cannot do is refused.
func datagrams(t *testing.T, w *world) {
	a, b := w.datagram(), w.datagram()
	a.meet(b)
	c := a.deliver(b, efa.SendReq{Buf: []byte("stranger")})
	require.Equal(t, efa.NoAddr, c.From)
	raw, _ := a.ep.Address().Raw(a.scheme())
	require.Equal(t, raw.QPN(), c.Raw().QPN())
	b.meet(a)
	mtu := a.mtu()
	for i, n := range []int{1, 32, 33, 4096, mtu - 1, mtu, 0} {
		c := a.deliver(b, efa.SendReq{Buf: pattern(n, i), HasData: i%2 == 0, Data: uint64(i)})
		require.Equal(t, n, c.N)
		require.Equal(t, b.peer, c.From)
		require.Equal(t, i%2 == 0, c.HasData)
		a, b = b, a
	}
	at := efa.RawRemote(4096, 8, 1)
	require.ErrorIs(t, a.ep.Memory(a.peer, at).Read(a.ctx, make([]byte, 8)), efa.ErrNotSupported)
	require.ErrorIs(t, a.ep.Memory(a.peer, at).Write(a.ctx, make([]byte, 8)), efa.ErrNotSupported)
	require.ErrorIs(t, a.ep.SendTag(a.ctx, a.peer, 1, nil), efa.ErrNotSupported)
	require.ErrorIs(t, a.ep.Send(a.ctx, a.peer, make([]byte, mtu+1)), efa.ErrMsgSize)
}

// lostDatagrams: many more than the other side takes are over, and so are those to a peer that
// is gone.
func lostDatagrams(t *testing.T, w *world) {
	a, b := w.datagram(), w.datagram()
	a.meet(b)
	for range 2000 {
		require.NoError(t, a.ep.Send(a.ctx, a.peer, pattern(a.mtu(), 1)))
	}
	a.deliver(b, efa.SendReq{Buf: []byte("the last")})
	require.NoError(t, b.ep.Close())
	for range 100 {
		require.NoError(t, a.ep.Send(a.ctx, a.peer, []byte("to nobody")))
	}
}
