package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// newLane takes a place in the table of connections.
func (p *port) newLane(state laneState, peer device.GID) *lane {
	l := &lane{p: p, state: state, peer: peer, sock: -1, sink: sink{slot: -1}}
	if n := len(p.free); n > 0 {
		l.id, p.free = p.free[n-1], p.free[:n-1]
	} else {
		l.id = int32(len(p.conns))
		p.conns = append(p.conns, place{})
	}
	c := &p.conns[l.id]
	c.l = l
	c.gen++
	p.setTick(true)
	return l
}

// watch watches a lane's descriptor for edges.
func (p *port) watch(l *lane, fd int) error {
	return p.watcher.control(unix.EPOLL_CTL_ADD, fd, edges, l.id, p.conns[l.id].gen)
}

// wrap makes a stream of a lane's connected socket. That of a dialed lane is
// watched already.
func (p *port) wrap(l *lane, fd int) error {
	c := conn{
		dialed: l.state == laneConnecting, self: wire.MakeRawAddr(p.self.gid, p.self.qpn, p.qkey),
		peer: l.peer, cfg: &p.dev.cfg,
		ring: func() { p.bell.ring(l) },
	}
	if c.dialed {
		c.peerQPN = l.s.r.at.qpn
		p.watcher.remove(fd)
	}
	l.sock = -1
	if p.dev.cfg.Credentials == nil {
		l.st = newPlain(fd, c)
	} else {
		st, err := p.dev.cfg.Credentials.wrap(fd, c)
		if err != nil {
			return err
		}
		l.st = st
	}
	return p.watch(l, l.st.fd())
}

// closeLane closes a connection. It does not deal with the requests on it.
func (p *port) closeLane(l *lane) {
	if l.state == laneClosed {
		return
	}
	l.state = laneClosed
	l.readable, l.writable = false, false
	if l.sock >= 0 {
		_ = unix.Close(l.sock)
		l.sock = -1
	}
	if l.st != nil {
		p.watcher.remove(l.st.fd())
		l.st.close()
	}
	if l.sink.slot >= 0 {
		p.inbox.giveBack(l.sink.slot)
	}
	l.sink = sink{slot: -1}
	l.out.reset()
	l.out, l.in = out{}, nil
	p.conns[l.id].l = nil
	p.free = append(p.free, l.id)
	if l.guest {
		p.door.leave(l)
	}
	if l.asked != nil {
		l.asked.over.Store(true)
		l.asked = nil
	}
}

// family is the address family of our sockets.
func (p *port) family() int {
	if AddrOf(p.self.gid).Is4() {
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
