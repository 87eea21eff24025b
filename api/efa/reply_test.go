package efa_test

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
)

// replyFabrics opens devices that reach each other, of each kind.
var replyFabrics = map[string]func(t *testing.T) func() (efa.Device, error){
	"shm": func(t *testing.T) func() (efa.Device, error) {
		dir := filepath.Join(t.TempDir(), "fabric")
		return func() (efa.Device, error) { return shm.Open(shm.Config{Dir: dir}) }
	},
	"tcp": func(*testing.T) func() (efa.Device, error) {
		return func() (efa.Device, error) { return tcp.Open(tcp.Config{Addr: netip.MustParseAddr("127.0.0.1")}) }
	},
	"sim": func(t *testing.T) func() (efa.Device, error) {
		f := newFabric(t, sim.Config{InOrder: true})
		return func() (efa.Device, error) { return f.OpenDevice(sim.DeviceConfig{}) }
	},
	"sim reads and writes": func(t *testing.T) func() (efa.Device, error) {
		f := newFabric(t, sim.Config{})
		return func() (efa.Device, error) { return f.OpenDevice(devices["reads and writes"]) }
	},
	"shm and tcp":              func(t *testing.T) func() (efa.Device, error) { return joined(t, true) },
	"tcp beside shm of others": func(t *testing.T) func() (efa.Device, error) { return joined(t, false) },
}

// joined opens shared memory and sockets as one; the processes have the same shared memory, or
// each has its own, as on two hosts.
func joined(t *testing.T, same bool) func() (efa.Device, error) {
	common := filepath.Join(t.TempDir(), "fabric")
	return func() (efa.Device, error) {
		dir := common
		if !same {
			dir = filepath.Join(t.TempDir(), "fabric")
		}
		s, err := shm.Open(shm.Config{Dir: dir})
		require.NoError(t, err)
		x, err := tcp.Open(tcp.Config{Addr: netip.MustParseAddr("127.0.0.1")})
		require.NoError(t, err)
		return efa.JoinDevices(s, x)
	}
}

// TestReply: strangers are answered on every device, short and long, tagged and not, and are known
// by a handle from then on.
func TestReply(t *testing.T) {
	for name, fabric := range replyFabrics {
		t.Run(name, func(t *testing.T) {
			mk := fabric(t)
			server := replySide(t, mk)
			clients := []*side{replySide(t, mk), replySide(t, mk)}
			ctx := testContext(t)
			for _, c := range clients {
				var err error
				c.peer, err = c.av.Insert(server.ep.Address())
				require.NoError(t, err)
			}
			for round := range 2 {
				for i, c := range clients {
					m := heard(t, c, server, pattern(10+i))
					if round == 0 {
						require.Equal(t, efa.NoAddr, m.From, "it is a stranger")
					} else {
						require.EqualValues(t, i, m.From, "it is known now")
					}
					answered(t, server, c, m, pattern(300_000+i))
				}
			}
			require.Equal(t, 2, server.av.Len())
			require.NotEqual(t, clients[0].ep.Address(), clients[1].ep.Address())
			// The answer to a tagged message has its tag.
			c, sent := clients[0], make(chan error, 1)
			go func() { sent <- c.ep.SendTag(ctx, c.peer, 77, []byte("ask")) }()
			buf := make([]byte, 16)
			m, err := server.ep.RecvTag(ctx, efa.AnyTag, buf)
			require.NoError(t, err)
			require.NoError(t, <-sent)
			go func() { sent <- server.ep.Reply(ctx, m, []byte("answer")) }()
			got, err := c.ep.RecvTag(ctx, efa.Match{Tag: 77}, buf)
			require.NoError(t, err)
			require.NoError(t, <-sent)
			require.Equal(t, "answer", string(buf[:got.N]))
			require.Equal(t, c.peer, got.From)
		})
	}
}

// TestReplyTooLate: a message of an endpoint that is gone, or whose handle was removed, is
// answered to nobody, least of all to whom has come since.
func TestReplyTooLate(t *testing.T) {
	for name, fabric := range replyFabrics {
		t.Run(name, func(t *testing.T) {
			mk := fabric(t)
			server, ctx := replySide(t, mk), testContext(t)
			client := replySide(t, mk)
			var err error
			client.peer, err = client.av.Insert(server.ep.Address())
			require.NoError(t, err)
			m := heard(t, client, server, pattern(10))
			require.NoError(t, client.ep.Close())
			err = server.ep.Reply(ctx, m, []byte("answer"))
			require.ErrorIs(t, err, efa.ErrPeerFailed)
			require.ErrorContains(t, err, "efa: send, peer 0: ")
			require.Zero(t, server.av.Len(), "what was inserted for it is gone again")

			other := replySide(t, mk)
			other.peer, err = other.av.Insert(server.ep.Address())
			require.NoError(t, err)
			m = heard(t, other, server, pattern(10))
			h, err := server.ep.Sender(m)
			require.NoError(t, err)
			m = heard(t, other, server, pattern(10))
			require.Equal(t, h, m.From)
			require.NoError(t, server.av.Remove(ctx, h))
			require.ErrorIs(t, server.ep.Reply(ctx, m, nil), efa.ErrNotConnected)
			again, err := server.av.Insert(server.ep.Address()) // takes the free handle
			require.NoError(t, err)
			require.Equal(t, h, again)
			err = server.ep.Reply(ctx, m, nil)
			require.ErrorIs(t, err, efa.ErrNotConnected)
			require.ErrorContains(t, err, "peer 0: ")
			again, err = server.av.Insert(other.ep.Address())
			require.NoError(t, err)
			answered(t, server, other, m, pattern(9))
			h, err = server.ep.Sender(m)
			require.NoError(t, err)
			require.Equal(t, again, h, "it is known by another handle now")
		})
	}
}

// TestReplyToFormer: the message is of an endpoint whose queue pair has been another's since,
// which has sent something as well, and gets no answer that is not for it.
func TestReplyToFormer(t *testing.T) {
	for name, fabric := range replyFabrics {
		if name == "tcp beside shm of others" {
			continue // tcp and "shm and tcp" have what it has
		}
		t.Run(name, func(t *testing.T) {
			mk := fabric(t)
			server, ctx := replySide(t, mk), testContext(t)
			d, err := mk()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			dom := domainOn(t, d, efa.DomainConfig{})
			var ms []efa.Message
			var last *side
			for range 2 {
				last = newEndpoint(t, dom, efa.EndpointConfig{QPN: 4711})
				last.peer, err = last.av.Insert(server.ep.Address())
				require.NoError(t, err)
				ms = append(ms, heard(t, last, server, pattern(10)))
				if len(ms) == 1 {
					require.NoError(t, last.ep.Close())
				}
			}
			require.Equal(t, ms[0].Raw().QPN(), ms[1].Raw().QPN())
			require.NotEqual(t, ms[0].Raw(), ms[1].Raw())
			require.ErrorIs(t, server.ep.Reply(ctx, ms[0], []byte("for the first")), efa.ErrPeerFailed)
			answered(t, server, last, ms[1], []byte("for the second"))
			require.ErrorIs(t, server.ep.Reply(ctx, ms[0], []byte("for the first")), efa.ErrPeerFailed)
			answered(t, server, last, ms[1], []byte("again"))
			require.Equal(t, 1, server.av.Len())
		})
	}
}

// TestReplyToNobody: what was sent, and what is made up, has no sender.
func TestReplyToNobody(t *testing.T) {
	a, _ := newPair(t, efa.DomainConfig{})
	for _, m := range []efa.Message{{}, {From: efa.NoAddr}, {From: 12345}} {
		require.ErrorIs(t, a.ep.Reply(testContext(t), m, nil), efa.ErrInvalid)
	}
}

func replySide(t *testing.T, mk func() (efa.Device, error)) *side {
	t.Helper()
	d, err := mk()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return newEndpoint(t, domainOn(t, d, efa.DomainConfig{}), efa.EndpointConfig{})
}

// heard is a message from one side to the other.
func heard(t *testing.T, from, to *side, p []byte) efa.Message {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- from.ep.Send(testContext(t), from.peer, p) }()
	buf := make([]byte, len(p))
	m, err := to.ep.Recv(testContext(t), buf)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.Equal(t, p, buf[:m.N])
	return m
}

// answered has one side reply to a message that came from the other.
func answered(t *testing.T, from, to *side, m efa.Message, p []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- from.ep.Reply(testContext(t), m, p) }()
	buf := make([]byte, len(p))
	got, err := to.ep.Recv(testContext(t), buf)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.Equal(t, p, buf[:got.N])
	require.Equal(t, to.peer, got.From)
}
