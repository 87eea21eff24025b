package directtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
)

// Run tests endpoints on devices of one fabric, of which open opens another one each time.
// The caller closes them.
func Run(t *testing.T, open func(t *testing.T) efa.Device) {
	for _, x := range []struct {
		name string
		f    func(*testing.T, *world)
	}{
		{"messages", messages},
		{"a queue full", queueFull},
		{"receiver not ready", notReady},
		{"truncation", truncation},
		{"refusals", refusals},
		{"RDMA", rdma},
		{"write with data", writeData},
		{"refused RDMA", refusedRDMA},
		{"strangers", strangers},
		{"canceled receives", canceledReceives},
		{"canceled sends", canceledSends},
		{"removed peers", removedPeers},
		{"regions that close", closedRegions},
		{"close", closeWithAll},
		{"a peer that is gone", gonePeer},
		{"a peer with the protocol", protocolPeer},
		{"snapshot", snapshot},
		{"flood", flood},
		{"datagrams", datagrams},
		{"datagrams are lost", lostDatagrams},
	} {
		t.Run(x.name, func(t *testing.T) { x.f(t, &world{t, open}) })
	}
}

type world struct {
	t    *testing.T
	open func(*testing.T) efa.Device
}

// side is one endpoint with a queue for everything.
type side struct {
	t    *testing.T
	ep   *efa.Endpoint
	dev  efa.Device
	ctx  context.Context
	peer efa.Addr // the other side, if they know each other
}

// side opens an endpoint; its zero config is one with Direct.
func (w *world) side(cfg efa.EndpointConfig) *side {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Hang)
	w.t.Cleanup(cancel)
	dev := w.open(w.t)
	ep, err := efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{Device: dev}, Endpoint: cfg})
	require.NoError(w.t, err)
	s := &side{t: w.t, ep: ep, dev: dev, ctx: ctx}
	w.t.Cleanup(s.close)
	return s
}

func (s *side) close() { require.NoError(s.t, s.ep.Close()) }

// direct is one that has the given settings.
func (w *world) direct(p efa.ProtocolConfig) *side {
	return w.side(efa.EndpointConfig{Direct: true, Protocol: p})
}

// pair opens two that know each other.
func (w *world) pair() (a, b *side) {
	w.t.Helper()
	a, b = w.direct(efa.ProtocolConfig{}), w.direct(efa.ProtocolConfig{})
	a.meet(b)
	b.meet(a)
	return a, b
}

func (s *side) meet(o *side) {
	s.t.Helper()
	var err error
	s.peer, err = s.ep.AddressVector().Insert(o.ep.Address())
	require.NoError(s.t, err)
}

func (s *side) mtu() int { return s.dev.Info().MTU }

// recv posts a receive.
func (s *side) recv(buf []byte, token uint64) efa.OpID {
	s.t.Helper()
	id, err := s.ep.PostRecv(&efa.RecvReq{Buf: buf, Token: token})
	require.NoError(s.t, err)
	return id
}

// send posts a message.
func (s *side) send(buf []byte, token uint64) efa.OpID {
	s.t.Helper()
	id, err := s.ep.PostSend(&efa.SendReq{To: s.peer, Buf: buf, Token: token})
	require.NoError(s.t, err)
	return id
}

// handled returns when the endpoint has taken all that was posted.
func (s *side) handled() {
	s.t.Helper()
	_, err := s.ep.Stats(s.ctx)
	require.NoError(s.t, err)
}

// next is the next completion of s.
func (s *side) next() efa.Completion {
	s.t.Helper()
	var c [1]efa.Completion
	_, err := s.ep.SendQueue().Read(s.ctx, c[:])
	require.NoError(s.t, err)
	return c[0]
}

// ok is next, of something that succeeded.
func (s *side) ok(k efa.Kind, token uint64) efa.Completion {
	s.t.Helper()
	c := s.next()
	require.NoError(s.t, c.Err)
	require.Equal(s.t, k, c.Kind)
	require.Equal(s.t, token, c.Token)
	return c
}

// failed is next, of something that failed so.
func (s *side) failed(err error, token uint64) efa.Completion {
	s.t.Helper()
	c := s.next()
	require.ErrorIs(s.t, c.Err, err)
	require.Equal(s.t, token, c.Token)
	return c
}

// check sends a word from a to b: both work.
func (s *side) check(b *side) {
	s.t.Helper()
	buf := make([]byte, 10)
	b.recv(buf, 901)
	s.send([]byte("all well"), 902)
	require.Equal(s.t, 8, b.ok(efa.Received, 901).N)
	require.Equal(s.t, "all well", string(buf[:8]))
	s.ok(efa.Sent, 902)
}

// pattern is n bytes that differ.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
	return b
}
