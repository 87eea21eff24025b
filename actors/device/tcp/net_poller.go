//go:build !linux || netpoll

package tcp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// network is the sockets of a queue pair and its timers where Go's network poller is all there
// is: goroutines accept, dial, read and write, and ring the port's bell. The shard calls the
// methods; none of them waits but close.
type network struct {
	p        *port
	listener *net.TCPListener
	accepted chan arrival  // by the goroutine that accepts
	resume   chan struct{} // after an error it waits for this
	halted   bool          // it does
	over     context.Context
	end      context.CancelFunc
	running  sync.WaitGroup // goroutines: one accepts, one for each dial
	tick     *clock.Alarm
	wake     *clock.Alarm
	own      []int
}

// socket is a connection that is not a stream yet.
type socket = *dialing

var noSocket socket

// arrival is what accepting gave.
type arrival struct {
	c   net.Conn
	err error
}

// maxAccepted is how many accepted connections wait for the shard; more wait in the system.
const maxAccepted = 16

func (n *network) open(p *port) error {
	n.p, n.own = p, []int{p.bell.r}
	n.over, n.end = context.WithCancel(context.Background())
	n.tick, n.wake = clock.NewAlarm(func() { p.bell.note(func(n *news) { n.tick = true }) }), clock.NewAlarm(func() { p.bell.note(func(n *news) { n.wake = true }) })
	return nil
}

// close closes what open and listen opened, and waits for the goroutines. Connections are closed before.
func (n *network) close() {
	if n.end == nil {
		return
	}
	n.end()
	n.tick.Stop()
	n.wake.Stop()
	if n.listener != nil {
		_ = n.listener.Close()
	}
	n.running.Wait()
	for n.accepted != nil {
		select {
		case a := <-n.accepted:
			if a.c != nil {
				_ = a.c.Close()
			}
		default:
			return
		}
	}
}

// fds become readable when look has something to find.
func (n *network) fds() []int { return n.own }

// look handles the news of all. If there are none it lets the goroutines run, for which there may
// be no processor while shards look for news all the time: without that a byte takes 1 to 10 ms.
func (n *network) look() {
	switch {
	case n.p.bell.any.Load():
		n.p.onBell()
	case n.p.ticking: // there are connections
		clock.Pause()
	}
}

// setTick makes look see a tick after each interval; 0 ends that.
func (n *network) setTick(interval time.Duration) { n.tick.Every(interval) }

// wakeAfter makes look see, once, that a time is over. It replaces an earlier one.
func (n *network) wakeAfter(d time.Duration) bool {
	n.wake.Once(d)
	return true
}

// listen makes the listening socket at an address; port 0: any that is free.
func (n *network) listen(at address) (address, error) {
	l, err := net.ListenTCP(at.family(), net.TCPAddrFromAddrPort(at.addrPort()))
	if err != nil {
		return at, err
	}
	n.listener, n.accepted, n.resume = l, make(chan arrival, maxAccepted), make(chan struct{}, 1)
	n.running.Go(n.serve)
	return addressAt(l.Addr()), nil
}

// serve accepts connections, until the listener is closed.
func (n *network) serve() {
	for {
		var a arrival
		a.c, a.err = n.listener.Accept()
		if errors.Is(a.err, net.ErrClosed) {
			return
		}
		select {
		case n.accepted <- a:
		case <-n.over.Done():
			if a.c != nil {
				_ = a.c.Close()
			}
			return
		}
		n.p.bell.note(func(n *news) { n.accept = true })
		if a.err != nil {
			select {
			case <-n.resume:
			case <-n.over.Done():
				return
			}
		}
	}
}

// accept takes a waiting connection; errNothing: there is none.
func (n *network) accept() (socket, address, error) {
	n.watchListener(true)
	select {
	case a := <-n.accepted:
		if a.err != nil {
			n.halted = true
			return nil, address{}, a.err
		}
		n.tune(a.c)
		return &dialing{c: a.c}, addressAt(a.c.RemoteAddr()), nil
	default:
		return nil, address{}, errNothing
	}
}

// watchListener lets connections be accepted again after an error, and reports whether it could.
func (n *network) watchListener(on bool) bool {
	if on && n.halted {
		n.halted = false
		n.resume <- struct{}{}
	}
	return true
}

// stream makes a stream of a connected socket, which belongs to it from now on, also after an error.
func (n *network) stream(l *lane, s socket, c conn) (stream, error) {
	l.readable, l.writable = true, true // so that readv and writev are called, and ask
	n.p.ready.queueRead(l)
	if creds := n.p.dev.cfg.Credentials; creds != nil {
		return creds.wrap(s, c)
	}
	return newRelay(s.c, c, nil), nil
}

// closeStream closes a stream of ours.
func (n *network) closeStream(st stream) { st.close() }

// tune sets the options that all sockets have, but those that package net sets. What else Linux
// can do about silent peers, the ticks notice.
func (n *network) tune(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAlivePeriod(max(n.p.timeout/2, time.Second))
	}
}

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
	ctx, stop := context.WithTimeout(n.over, n.p.timeout)
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
	case noDescriptors(w.err) && n.p.acceptor.evictOldest():
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

// family is the name of the address family of an address' sockets, for package net.
func (a address) family() string {
	if AddrOf(a.gid).Is4() {
		return "tcp4"
	}
	return "tcp6"
}

func (a address) addrPort() netip.AddrPort { return netip.AddrPortFrom(AddrOf(a.gid), a.qpn) }

// addressAt converts an address of package net.
func addressAt(a net.Addr) address {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return address{}
	}
	ip := t.AddrPort()
	return address{GIDOf(ip.Addr().Unmap()), ip.Port()}
}
