//go:build linux && !netpoll

package tcp

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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

// arrived reports whether the next look at the network finds n bytes for l.
func arrived(l *lane, n int) bool { return pending(l.st) == n }

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
