//go:build !linux || netpoll

package tcp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
)

// dialing is the connecting of a lane's socket, and what came of it.
type dialing struct {
	stop context.CancelFunc

	mu     sync.Mutex
	done   bool
	nobody bool // cares any more
	c      net.Conn
	err    error
}

// dial begins to connect a lane's socket. When that is over, look calls dialer.connected.
func (n *network) dial(l *lane, to address) error {
	ctx, stop := context.WithTimeout(n.over, n.p.dev.cfg.Timeout)
	w := &dialing{stop: stop}
	l.sock = w
	self := n.p.self
	n.running.Go(func() {
		defer stop()
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(AddrOf(self.gid), 0)), KeepAlive: -1}
		c, err := d.DialContext(ctx, to.family(), to.addrPort().String())
		switch {
		case err == nil && addressAt(c.LocalAddr()) == to: // connected to itself (RFC 9293, 3.5)
			_ = c.Close()
			err = connRefused
		case errors.Is(err, context.DeadlineExceeded):
			err = timedOut
		}
		w.finish(n.p.bell, l, c, err)
	})
	return nil
}

// finish hands the result over.
func (w *dialing) finish(b *bell, l *lane, c net.Conn, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nobody {
		if err == nil {
			_ = c.Close()
		}
		return
	}
	w.c, w.err, w.done = c, err, true
	b.ring(l)
}

// dialed reports how the connecting of a lane's socket ended; errNothing: it did not.
func (n *network) dialed(l *lane) error {
	w := l.sock
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.done:
		return errNothing
	case noDescriptors(w.err) && n.p.door.dismiss():
		_ = n.dial(l, l.s.r.at) // never fails
		return errNothing
	case w.err != nil:
		return w.err
	}
	n.tune(w.c)
	return nil
}

// abandon closes a lane's socket that has no stream.
func (n *network) abandon(l *lane) {
	w := l.sock
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nobody = true
	if w.stop != nil {
		w.stop()
	}
	if w.err == nil && w.c != nil {
		_ = w.c.Close()
	}
}
