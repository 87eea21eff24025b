//go:build linux

package tcp

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// TestTLSSilence: a handshake that does not go on is given up, on either side.
func TestTLSSilence(t *testing.T) {
	inTime(t, func() {
		n := newNode(t, Config{Timeout: shortly, Credentials: jobCreds(t, tlsSecret)}, device.QPConfig{})
		f := newFoe(t, n, nil)
		f.closed()
		h := newHost(t, n)
		require.Equal(t, device.StatusUnresponsive, n.status(n.send(h.at, "hello?")))
	})
}

// TestTLSStrangers: a connection within its handshake costs one descriptor and nothing after
// its end, and gives way where there is none for a new one.
func TestTLSStrangers(t *testing.T) {
	skipPoller(t)
	cfg := func() Config { return Config{Credentials: jobCreds(t, tlsSecret)} }
	n, peer := newNode(t, cfg(), device.QPConfig{}), newNode(t, cfg(), device.QPConfig{})
	require.Equal(t, device.StatusOK, n.status(n.send(peer.at(), "warm"), peer)) // the session and its lanes
	until(t, "lanes", func() bool { return peer.port().acceptor.accepted == 2 }, n, peer)
	before := descriptors(t)
	const lots = 20
	var foes []net.Conn
	to := net.TCPAddr{IP: AddrOf(n.at().gid).AsSlice(), Port: int(n.at().qpn)}
	for range lots {
		c, err := net.DialTCP("tcp", nil, &to)
		require.NoError(t, err)
		defer c.Close()
		foes = append(foes, c)
	}
	until(t, "strangers", func() bool { return n.port().acceptor.accepted == lots }, n)
	require.LessOrEqual(t, descriptors(t), before+2*lots+1, "both ends are ours")

	next := newNode(t, cfg(), device.QPConfig{})
	id := next.send(n.at(), "let me in")
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	none := was
	none.Cur = lowestFree(t)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	st := next.status(id, n)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	require.Equal(t, device.StatusOK, st)
	require.GreaterOrEqual(t, n.port().acceptor.idle.n, lots-4, "no more give way than it needs")

	for _, c := range foes {
		require.NoError(t, c.Close())
	}
	until(t, "their end", func() bool { return n.port().acceptor.idle.n == 0 }, n, next, peer)
	for _, x := range []*node{n, peer, next} {
		require.NoError(t, x.q.Close())
	}
	noGoroutines(t)
}
