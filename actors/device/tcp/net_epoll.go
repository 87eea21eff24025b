//go:build linux && !netpoll

package tcp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// network is the sockets of a queue pair and its timers, watched by one epoll descriptor. The
// shard makes all calls; none of them waits.
type network struct {
	p          *port
	ep         int
	listener   int
	tick, wake int // timers
	own        []int
	events     [maxEvents]unix.EpollEvent
}

// socket is a descriptor.
type socket = int

const noSocket socket = -1

// Numbers in epoll's data that stand for no connection.
const (
	listenerID = -1 - iota
	tickID
	wakeID
	bellID
)

const maxEvents = 64

const edges = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

func (n *network) open(p *port) (err error) {
	n.p, n.listener, n.tick, n.wake = p, -1, -1, -1
	if n.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("tcp: epoll: %w", err)
	}
	n.own = []int{n.ep}
	for _, t := range []struct {
		fd *int
		id int32
	}{{&n.tick, tickID}, {&n.wake, wakeID}} {
		if *t.fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
			return fmt.Errorf("tcp: timer: %w", err)
		}
		if err = n.add(*t.fd, t.id); err != nil {
			return err
		}
	}
	return n.add(p.bell.r, bellID)
}

// close closes what open and listen opened. Connections are closed before.
func (n *network) close() {
	if n.p == nil { // not opened, and fds are 0
		return
	}
	for _, fd := range [...]int{n.listener, n.tick, n.wake, n.ep} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// fds become readable when look has something to find.
func (n *network) fds() []int { return n.own }

func (n *network) control(op, fd int, events uint32, id, gen int32) error {
	if err := unix.EpollCtl(n.ep, op, fd, &unix.EpollEvent{Events: events, Fd: id, Pad: gen}); err != nil {
		return fmt.Errorf("tcp: epoll: %w", err)
	}
	return nil
}

// add watches a descriptor for input. Its number stands for no connection.
func (n *network) add(fd int, id int32) error {
	return n.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, id, 0)
}

// watch watches a lane's descriptor for edges, by EPOLL_CTL_ADD. By EPOLL_CTL_MOD it begins anew: what is there
// already makes an edge once more.
func (n *network) watch(op int, l *lane, fd int) error {
	return n.control(op, fd, edges, l.id, n.p.conns[l.id].gen)
}

func (n *network) unwatch(fd int) { _ = unix.EpollCtl(n.ep, unix.EPOLL_CTL_DEL, fd, nil) }

// look handles the news of all.
func (n *network) look() {
	p := n.p
	got := rawEpoll(n.ep, n.events[:])
	for i := range n.events[:got] {
		e := &n.events[i]
		switch e.Fd {
		case listenerID:
			p.acceptor.accept()
		case tickID:
			drainCounter(n.tick)
			p.ticked = true
		case wakeID:
			drainCounter(n.wake)
			p.due = true
		case bellID:
			p.onBell()
		default:
			if c := p.conns[e.Fd]; c.l != nil && c.gen == e.Pad {
				n.onEvent(c.l, e.Events)
			}
		}
	}
}

func (n *network) onEvent(l *lane, events uint32) {
	p := n.p
	if l.state == laneConnecting {
		if events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			p.dialer.connected(l)
		}
		return
	}
	if events&(unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLRDHUP) != 0 {
		l.ended = true
	}
	if events&unix.EPOLLOUT != 0 {
		l.hasRoom()
	}
	if events&^unix.EPOLLOUT != 0 {
		l.readable = true
		p.ready.queueRead(l)
	}
}

// setTick makes look see a tick after each interval; 0 ends that.
func (n *network) setTick(interval time.Duration) {
	ts := unix.NsecToTimespec(int64(interval))
	_ = unix.TimerfdSettime(n.tick, 0, &unix.ItimerSpec{Interval: ts, Value: ts}, nil)
}

// wakeAfter makes look see, once, that a time is over. It replaces an earlier one.
func (n *network) wakeAfter(d time.Duration) bool {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(d), 1))} // 0 would stop the timer
	return unix.TimerfdSettime(n.wake, 0, &spec, nil) == nil
}

// listen makes the listening socket at an address; port 0: any that is free.
func (n *network) listen(at address) (address, error) {
	fd, err := unix.Socket(family(at), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return at, fmt.Errorf("socket: %w", err)
	}
	n.listener = fd
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) // connections of the past do not matter
	if family(at) == unix.AF_INET6 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err := unix.Bind(fd, sockaddr(at)); err != nil {
		return at, err
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return at, err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return at, fmt.Errorf("getsockname: %w", err)
	}
	return addressOf(sa), n.add(fd, listenerID)
}

// accept takes a waiting connection; errNothing: there is none.
func (n *network) accept() (socket, address, error) {
	fd, sa, err := unix.Accept4(n.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if errors.Is(err, unix.EAGAIN) {
		err = errNothing
	}
	if err != nil {
		return noSocket, address{}, err
	}
	n.tune(fd)
	return fd, addressOf(sa), nil
}

// watchListener changes whether connections that wait make news, and reports whether it could.
func (n *network) watchListener(on bool) bool {
	events := uint32(0)
	if on {
		events = unix.EPOLLIN
	}
	return n.control(unix.EPOLL_CTL_MOD, n.listener, events, listenerID, 0) == nil
}

// dial begins to connect a lane's socket. When that is over, look calls dialer.connected.
func (n *network) dial(l *lane, to address) error {
	fd, err := n.newSocket()
	for noDescriptors(err) && n.p.acceptor.evictOldest() {
		fd, err = n.newSocket()
	}
	if err != nil {
		return err
	}
	l.sock = fd
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Connect(fd, sockaddr(to))
	}
	began := errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EALREADY) || errors.Is(err, unix.EISCONN) // the last two after EINTR
	if err == nil || began {
		err = n.watch(unix.EPOLL_CTL_ADD, l, fd)
	}
	return err
}

// newSocket makes a socket that is bound to our address.
func (n *network) newSocket() (socket, error) {
	self := n.p.self
	fd, err := unix.Socket(family(self), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return noSocket, err
	}
	// The port is chosen by connect, so that each address may use all of them; one that
	// is in use for this must not keep a queue pair from listening on it.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	if err := unix.Bind(fd, sockaddr(address{gid: self.gid})); err != nil {
		_ = unix.Close(fd)
		return noSocket, err
	}
	n.tune(fd)
	return fd, nil
}

// dialed reports how the connecting of a lane's socket ended.
func (n *network) dialed(l *lane) error {
	errno, err := unix.GetsockoptInt(l.sock, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return err
	case errno != 0:
		return unix.Errno(errno)
	case n.toItself(l.sock):
		return unix.ECONNREFUSED
	}
	return nil
}

// toItself reports whether a socket is connected to itself (RFC 9293, 3.5:
// simultaneous open): it dialed a port without listener, and happened to get this port
// itself.
func (n *network) toItself(fd socket) bool {
	a, err := unix.Getsockname(fd)
	b, err2 := unix.Getpeername(fd)
	return err == nil && err2 == nil && addressOf(a) == addressOf(b)
}

// abandon closes a lane's socket that has no stream.
func (n *network) abandon(l *lane) { _ = unix.Close(l.sock) }

// stream makes a stream of a connected socket, which belongs to it from now on, also after an error.
func (n *network) stream(l *lane, s socket, c conn) (stream, error) {
	op := unix.EPOLL_CTL_ADD
	if c.dialed {
		op = unix.EPOLL_CTL_MOD // it was watched while it was connecting
	}
	if creds := n.p.dev.cfg.Credentials; creds != nil {
		st, err := creds.wrap(s, c)
		if err != nil {
			return nil, err
		}
		return st, n.watch(op, l, s)
	}
	return newPlain(s, c), n.watch(op, l, s)
}

// watched is a stream with a socket that is watched.
type watched interface{ fd() socket }

// closeStream closes a stream of ours.
func (n *network) closeStream(st stream) {
	if w, ok := st.(watched); ok {
		n.unwatch(w.fd())
	}
	st.close()
}

// tune sets the options that all sockets have.
func (n *network) tune(fd socket) {
	ms := max(int(n.p.timeout/time.Millisecond), 1)
	secs := max(ms/1000, 1)
	for _, o := range [...]struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms}, // RFC 5482
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},       // RFC 9293, 3.8.4
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, max(secs/2, 1)},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, max(secs/6, 1)},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
	} {
		_ = unix.SetsockoptInt(fd, o.level, o.name, o.value) // without it, the ticks notice
	}
}

// drainCounter makes a timer unreadable.
func drainCounter(fd int) {
	var b [8]byte
	_, _ = unix.Read(fd, b[:])
}

// family is the address family of an address' sockets.
func family(a address) int {
	if AddrOf(a.gid).Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// sockaddr converts an address for the kernel.
func sockaddr(a address) unix.Sockaddr {
	ip := AddrOf(a.gid)
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.qpn), Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.qpn), Addr: ip.As16()}
}

// addressOf converts an address from the kernel.
func addressOf(sa unix.Sockaddr) address {
	switch s := sa.(type) {
	case *unix.SockaddrInet4:
		var a address
		a.gid[10], a.gid[11] = 0xff, 0xff
		copy(a.gid[12:], s.Addr[:])
		a.qpn = uint16(s.Port)
		return a
	case *unix.SockaddrInet6:
		return address{device.GID(s.Addr), uint16(s.Port)}
	default:
		return address{}
	}
}

// nearOf is a socket's own address.
func nearOf(s socket) (address, error) {
	sa, err := unix.Getsockname(s)
	if err != nil {
		return address{}, err
	}
	return addressOf(sa), nil
}

// isOver reports whether the other side was seen to have ended a connection.
func isOver(s socket) bool {
	info, err := unix.GetsockoptTCPInfo(s, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.State != established
}
