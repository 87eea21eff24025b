package tcp

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// newLane takes a place in the table of connections.
func (p *port) newLane(state laneState, peer device.GID) *lane {
	l := &lane{p: p, state: state, peer: peer, sock: noSocket, sink: sink{slot: -1}}
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

// wrap makes a stream of a lane's connected socket.
func (p *port) wrap(l *lane, s socket) error {
	c := conn{
		dialed: l.state == laneConnecting, self: wire.MakeRawAddr(p.self.gid, p.self.qpn, p.qkey),
		peer: l.peer, cfg: &p.dev.cfg,
		ring: func() { p.bell.ring(l) }, running: &p.running,
	}
	if c.dialed {
		c.peerQPN = l.s.r.at.qpn
	}
	l.sock = noSocket
	st, err := p.net.stream(l, s, c)
	if st != nil {
		l.st = st
	}
	return err
}

// closeLane closes a connection. It does not deal with the requests on it.
func (p *port) closeLane(l *lane) {
	if l.state == laneClosed {
		return
	}
	l.state = laneClosed
	l.readable, l.writable = false, false
	if l.sock != noSocket {
		p.net.abandon(l)
		l.sock = noSocket
	}
	if l.st != nil {
		p.net.closeStream(l.st)
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
