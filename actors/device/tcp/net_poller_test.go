//go:build linux && netpoll

package tcp

import (
	"net"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// vanish closes all connections, and the port hears no more of them.
func (n *network) vanish() {
	p := n.p
	for _, c := range p.conns {
		if c.l != nil && c.l.st != nil {
			_ = c.l.st.(interface{ netConn() net.Conn }).netConn().Close()
		}
	}
	_ = n.listener.Close()
	p.bell.mu.Lock()
	defer p.bell.mu.Unlock()
	p.bell.news, p.bell.over = news{}, true
}

// wakeFD is what becomes readable at the time of WakeAt.
func (p *port) wakeFD() int { return p.bell.r }

func (r *relay) netConn() net.Conn { return r.sock }

// pending is how many bytes have arrived that the shard has not read.
func pending(st stream) int {
	r := st.(*relay)
	n, _, _ := r.in.state()
	if raw, err := r.sock.(syscall.Conn).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			k, _ := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
			n += uint64(k)
		})
	}
	return int(n)
}

// arrived reports whether the next look at the network finds n bytes for l: the goroutine that reads has rung for them.
func arrived(l *lane, n int) bool {
	b := l.p.bell
	b.mu.Lock()
	defer b.mu.Unlock()
	k, _, _ := l.st.(*relay).in.state()
	return int(k) == n && slices.Contains(b.news.lanes, l)
}

// bare makes a stream without credentials.
func bare(s socket, c conn) *relay { return newRelay(s.c, c, nil) }

type bareStream = *relay

func socketOf(_ *testing.T, c *net.TCPConn) socket { return &dialing{c: c} }

func (e *end) watch() { e.ep = e.bell.r }

func (e *end) look() {}

func (e *end) unwatch() {}

func (e *end) isUp() bool { return e.stream.(*relay).isUp() }

// cut ends our direction of the connection below TLS.
func (e *end) cut() error { return e.stream.(*relay).sock.(*net.TCPConn).CloseWrite() }

// abort makes close reset the connection.
func (e *end) abort() error { return e.stream.(*relay).sock.(*net.TCPConn).SetLinger(0) }

// skipPoller is for what Go's network poller does not do well.
func skipPoller(t *testing.T) {
	t.Skip("with Go's poller a queue pair without descriptors accepts slowly, and its own dials fail: CHANGELOG, NEXT")
}
