//go:build linux && !netpoll

package tcp

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// vanish closes all connections, and the port hears no more of them.
func (n *network) vanish() {
	p := n.p
	for _, c := range p.conns {
		if c.l == nil || c.l.st == nil {
			continue
		}
		fd := c.l.st.(watched).fd()
		n.unwatch(fd)
		_ = unix.Dup2(n.tick, fd) // closes the connection, and nothing else has the number
	}
	_ = unix.Dup2(n.tick, n.listener)
	n.ep, _ = unix.EpollCreate1(0)
}

// pending is how many bytes have arrived that the shard has not read.
func pending(st stream) int {
	n, _ := unix.IoctlGetInt(st.(watched).fd(), unix.SIOCINQ)
	return n
}

// wakeFD is what becomes readable at the time of WakeAt.
func (p *port) wakeFD() int { return p.net.wake }

// bare makes a stream without credentials.
func bare(s socket, c conn) *plain { return newPlain(s, c) }

type bareStream = *plain

// socketOf takes the socket away from package net.
func socketOf(t *testing.T, c *net.TCPConn) socket {
	t.Helper()
	defer c.Close()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	return dup(t, raw)
}

func dup(t *testing.T, raw syscall.RawConn) (fd int) {
	t.Helper()
	var err error
	require.NoError(t, raw.Control(func(s uintptr) { fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) }))
	require.NoError(t, err)
	return fd
}

// watch adds the stream and the bell to an epoll, as a port's.
func (e *end) watch() {
	e.t.Helper()
	var err error
	e.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	require.NoError(e.t, err)
	for _, fd := range [...]int{e.stream.(*tlsStream).sock.fd, e.bell.r} {
		require.NoError(e.t, unix.EpollCtl(e.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: edges & 0xffffffff}))
	}
}

// look takes the edges.
func (e *end) look() {
	var ev [2]unix.EpollEvent
	_, _ = unix.EpollWait(e.ep, ev[:], 0)
}

func (e *end) unwatch() { _ = unix.Close(e.ep) }

func (e *end) isUp() bool { return e.stream.(*tlsStream).up }

// cut ends our direction of the connection below TLS.
func (e *end) cut() error { return unix.Shutdown(e.stream.(*tlsStream).sock.fd, unix.SHUT_WR) }

// abort makes close reset the connection.
func (e *end) abort() error {
	return unix.SetsockoptLinger(e.stream.(*tlsStream).sock.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

func skipPoller(*testing.T) {}

// TestStatusWaitsAnew: each status waits delayedPolls polls for a packet that it can leave with, also if an earlier status has
// left before its own polls were over. (With Go's poller any news of a lane, such as that its last bytes have left,
// has its output written.)
func TestStatusWaitsAnew(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	f := inside(t, n)
	ah, err := n.q.CreateAH(f.at.gid)
	require.NoError(t, err)
	l := n.port().remotes[f.at].accepted.lanes[0]
	arrive := func(token uint64) {
		f.frame(frame{kind: kindSend, length: 3, token: token, qkey: 5}, []byte("abc")...)
		until(t, "that it is here", func() bool { return n.port().unread() == sendLen+3 })
		n.port().skip = 0
		n.poll()
		require.Len(t, n.recvs, int(token))
		require.Equal(t, baseLen, l.out.size)
	}
	arrive(1)
	require.NoError(t, n.q.PostSend(&device.SendWR{AH: ah, QPN: f.at.qpn, QKey: 9, ID: 1, Payload: []byte("answer")}))
	n.q.Doorbell()
	require.Zero(t, l.out.size)
	for range delayedPolls - 2 {
		n.poll()
	}
	arrive(2)
	for range delayedPolls {
		require.Equal(t, baseLen, l.out.size)
		n.poll()
	}
	n.poll()
	require.Zero(t, l.out.size)
	require.False(t, l.statusQueued)
}
