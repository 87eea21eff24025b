package directtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// canceledReceives: they end, and a message that comes where one was waits for the next.
func canceledReceives(t *testing.T, w *world) {
	a, b := w.pair()
	bufs := [4][10]byte{}
	require.NoError(t, b.ep.Cancel(b.recv(bufs[0][:], 0)))
	b.failed(efa.ErrCanceled, 0)
	b.recv(bufs[1][:], 1)
	last := b.recv(bufs[2][:], 2)
	a.send([]byte("first"), 11)
	b.ok(efa.Received, 1) // and by now the device has a slot for the last one
	require.Equal(t, "first", string(bufs[1][:5]))
	a.ok(efa.Sent, 11)
	require.NoError(t, b.ep.Cancel(last))
	b.failed(efa.ErrCanceled, 2)
	a.send([]byte("second"), 12)
	a.ok(efa.Sent, 12)
	b.recv(bufs[3][:], 3)
	b.ok(efa.Received, 3)
	require.Equal(t, "second", string(bufs[3][:6]))
	a.check(b)
}

// canceledSends: the caller is let go of, though the device may still bring the message.
func canceledSends(t *testing.T, w *world) {
	a, b := w.pair()
	buf := []byte("first")
	id := a.send(buf, 1)
	ctx, cancel := context.WithCancel(a.ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.ep.Send(ctx, a.peer, []byte("other")) }()
	a.handled()
	require.NoError(t, a.ep.Cancel(id))
	a.failed(efa.ErrCanceled, 1)
	clear(buf) // it is the caller's again
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	got := [2][10]byte{}
	b.recv(got[0][:], 1)
	require.Equal(t, 5, b.ok(efa.Received, 1).N)
	require.Contains(t, []string{"first", "other"}, string(got[0][:5]))
}

// removedPeers: what is in progress with a handle ends with it.
func removedPeers(t *testing.T, w *world) {
	a, b := w.pair()
	a.send([]byte("waits"), 1)
	a.handled()
	require.NoError(t, a.ep.AddressVector().Remove(a.ctx, a.peer))
	a.failed(efa.ErrCanceled, 1)
	_, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: []byte("nobody")})
	require.ErrorIs(t, err, efa.ErrInvalid)
	a.meet(b)
	buf := make([]byte, 10)
	b.recv(buf, 3)
	require.Equal(t, 5, b.ok(efa.Received, 3).N) // the device had it
	a.check(b)
}

// closeWithAll: every operation ends once, with the endpoint.
func closeWithAll(t *testing.T, w *world) {
	a, b := w.direct(efa.ProtocolConfig{SendQueue: 4}), w.direct(efa.ProtocolConfig{})
	a.meet(b)
	b.meet(a)
	dom, buf := a.ep.Domain(), make([]byte, 8)
	q, err := dom.NewQueue(64)
	require.NoError(t, err)
	ep, err := dom.NewEndpoint(efa.EndpointConfig{Direct: true, SendQueue: q, RecvQueue: q, Protocol: efa.ProtocolConfig{SendQueue: 4}})
	require.NoError(t, err)
	require.NoError(t, ep.Enable(a.ctx))
	to, err := ep.AddressVector().Insert(b.ep.Address())
	require.NoError(t, err)
	open := map[uint64]bool{}
	for i := range uint64(20) {
		if open[i] = true; i%2 == 0 {
			_, err = ep.PostRecv(&efa.RecvReq{Buf: buf, Token: i})
		} else {
			_, err = ep.PostSend(&efa.SendReq{To: to, Buf: buf, Token: i}) // nobody receives
		}
		require.NoError(t, err)
	}
	require.NoError(t, ep.Close())
	for len(open) > 0 {
		var c [8]efa.Completion
		n, err := q.Read(a.ctx, c[:])
		require.NoError(t, err)
		for _, c := range c[:n] {
			require.True(t, open[c.Token], "token %d twice", c.Token)
			delete(open, c.Token)
			require.ErrorIs(t, c.Err, efa.ErrClosed)
		}
	}
	_, err = ep.PostSend(&efa.SendReq{To: to, Buf: buf})
	require.ErrorIs(t, err, efa.ErrClosed)
	require.NoError(t, q.Close())
	b.check(a) // b may still get what was on its way from the closed one
}

// gonePeer: operations with an endpoint that has closed end with an error, also those that
// wait for a receive there.
func gonePeer(t *testing.T, w *world) {
	a, b := w.pair()
	a.check(b)
	a.send([]byte("waits"), 1)
	a.handled()
	require.NoError(t, b.ep.Close())
	require.Error(t, a.next().Err)
	a.send([]byte("later"), 2)
	require.Error(t, a.next().Err)
	c := w.direct(efa.ProtocolConfig{})
	c.meet(a)
	a.meet(c)
	a.check(c)
}

// protocolPeer: packets of an endpoint with the protocol are data to one without, whose
// packets are counted there, and end it as a peer.
func protocolPeer(t *testing.T, w *world) {
	a, b := w.direct(efa.ProtocolConfig{}), w.side(efa.EndpointConfig{})
	a.meet(b)
	b.meet(a)
	buf := make([]byte, a.mtu())
	a.recv(buf, 1)
	op, err := b.ep.Start(&efa.SendReq{To: b.peer, Buf: []byte("hello")})
	require.NoError(t, err)
	require.Greater(t, a.ok(efa.Received, 1).N, 5, "headers are data")
	op.Cancel()
	_, _ = op.Wait(b.ctx) // with whatever outcome: a packet has arrived
	before := strange(t, b)
	a.send(pattern(100, 0), 2)
	a.ok(efa.Sent, 2)
	for strange(t, b) == before {
		require.NoError(t, b.ctx.Err(), "packets of no protocol are counted")
	}
	a.send(pattern(100, 0), 3)
	if c := a.next(); c.Err != nil { // b has given a up, and its device can refuse what a sends
		require.ErrorIs(t, c.Err, efa.ErrNotConnected)
	}
}

// strange counts the packets that b took for none of the protocol.
func strange(t *testing.T, b *side) uint64 {
	s, err := b.ep.Stats(b.ctx)
	require.NoError(t, err)
	return s["BadShort"] + s["BadType"] + s["BadVersion"] + s["BadLength"] + s["NoAddress"] + s["StaleConnID"]
}

// snapshot: what is in progress can be seen.
func snapshot(t *testing.T, w *world) {
	a, b := w.pair()
	a.send([]byte("waits"), 1)
	b.recv(make([]byte, 10), 2)
	b.recv(make([]byte, 10), 3)
	b.ok(efa.Received, 2)
	a.ok(efa.Sent, 1)
	s, err := b.ep.Snapshot(b.ctx)
	require.NoError(t, err)
	require.Len(t, s.Operations, 1)
	require.Equal(t, "receive", s.Operations[0].Kind)
	require.Equal(t, 1, s.Queues.PostedReceives)
	for { // until the message meets no receive
		a.send([]byte("more"), 4)
		a.handled()
		s, err = a.ep.Snapshot(a.ctx)
		require.NoError(t, err)
		if len(s.Operations) > 0 {
			require.Equal(t, "send", s.Operations[0].Kind)
			require.Equal(t, "the device", s.Operations[0].Waits)
			require.NotEmpty(t, s.Operations[0].Peer)
			break
		}
	}
}
