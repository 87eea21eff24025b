package tcp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// acceptBatch is how many connections are accepted in one turn.
const acceptBatch = 16

// listen makes the listening socket, whose port is the queue pair's number.
func (p *port) listen(qpn uint16) (uint16, error) {
	fd, err := unix.Socket(p.family(), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("tcp: socket: %w", err)
	}
	p.listener = fd
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) // connections of the past do not matter
	if p.family() == unix.AF_INET6 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	at := address{p.self.gid, qpn}
	if err = unix.Bind(fd, sockaddr(at)); err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return 0, fmt.Errorf("%w: port %d of %v: %w", device.ErrQPNInUse, qpn, AddrOf(at.gid), err)
	case err != nil:
		return 0, fmt.Errorf("tcp: listen on port %d of %v: %w", qpn, AddrOf(at.gid), err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("tcp: getsockname: %w", err)
	}
	return addressOf(sa).qpn, p.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, listenerID, 0)
}

// accept takes waiting connections.
func (p *port) accept() {
	for range acceptBatch {
		fd, sa, err := unix.Accept4(p.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			p.welcome(fd, addressOf(sa))
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		case errors.Is(err, unix.EAGAIN):
			return
		default: // no descriptors, say: look again at the next tick
			p.complaints.warn("tcp: accept", "why", err)
			p.deaf = p.control(unix.EPOLL_CTL_MOD, p.listener, 0, listenerID, 0) == nil
			p.setTick(true)
			return
		}
	}
}

// welcome makes a lane of a connection. With too many, the oldest that have not
// identified themselves are closed.
func (p *port) welcome(fd int, from address) {
	p.dev.stats.accepted.Add(1)
	if p.guests >= p.dev.cfg.MaxConn {
		p.dev.stats.crowded.Add(1)
		if !p.dismissStranger() {
			_ = unix.Close(fd)
			return
		}
	}
	p.tune(fd)
	l := p.newLane(laneStranger, from.gid)
	l.guest = true
	p.guests++
	if err := p.wrap(l, fd); err != nil {
		p.closeLane(l)
		return
	}
	l.writable, l.readable = true, true
	p.awaken(l)
}

// dismissStranger closes a connection that has not identified itself. It scans the
// table round-robin, so it is one of the oldest.
func (p *port) dismissStranger() bool {
	for range p.conns {
		p.hand = (p.hand + 1) % len(p.conns)
		if l := p.conns[p.hand].l; l != nil && l.state == laneStranger {
			p.closeLane(l)
			return true
		}
	}
	return false
}

// onPreamble handles a complete preamble, or the complete reply to ours.
func (p *port) onPreamble(l *lane) {
	var h preamble
	err := h.parse(l.hello[:])
	switch {
	case l.state == laneAsking && err != nil && errors.Is(err, errVersion):
		p.dialFailed(l, err, device.StatusMismatch)
	case l.state == laneAsking && err != nil:
		p.dialFailed(l, err, device.StatusBadDestQPN)
	case l.state == laneAsking:
		p.onReply(l, &h)
	case err != nil && !errors.Is(err, errVersion) || h.reply:
		p.dev.stats.strangers.Add(1)
		p.closeLane(l)
	case err != nil:
		p.reply(l, &preamble{}, wrongVersion)
	default:
		p.reply(l, &h, p.admitConn(l, &h))
	}
}

// admitConn decides on an accepted connection, and adds it to its session.
func (p *port) admitConn(l *lane, h *preamble) verdict {
	switch {
	case h.to != p.self:
		return wrongPlace
	case int(h.mtu) != p.dev.cfg.MTU:
		return wrongMTU
	}
	if err := l.st.vouch(h.raw()); err != nil {
		p.dev.stats.impostors.Add(1)
		p.complaints.warn("tcp: impostor", "address", AddrOf(l.peer), "says", AddrOf(h.from.gid), "port", h.from.qpn, "why", err)
		return wrongPeer
	}
	if h.lane == 0 {
		return p.admitSession(l, h)
	}
	r := p.remotes[h.from]
	if r == nil || r.accepted == nil || r.accepted.num != h.session || r.accepted.leaving || r.qkey != h.qkey ||
		h.lane > r.accepted.want || r.accepted.lanes[h.lane] != nil {
		return wrongSession
	}
	l.join(r.accepted, h.lane)
	return taken
}

// admitSession begins a session that the other side dialed. The preamble's state
// shows which of the earlier sessions have ended for it: their bytes are not taken
// any more.
func (p *port) admitSession(l *lane, h *preamble) verdict {
	r := p.remoteAt(h.from)
	if !follows(h.session, r.last) {
		return wrongSession
	}
	if r.known && r.qkey != h.qkey {
		p.endAll(r, device.StatusAbort)
	}
	if r.accepted != nil {
		p.end(r.accepted, device.StatusAbort)
	}
	if d := r.dialed; d != nil {
		mutual := h.last == d.num && h.alive // it has that one, too
		// The other side has not seen it yet, or had not when it wrote this, and then said
		// so itself: a preamble may be later than a reply that was written behind it.
		crossed := h.last != d.num && !d.up || d.crossing == h.session
		if !mutual && !crossed || d.leaving {
			p.end(d, device.StatusAbort)
		}
	}
	s := &session{r: r, num: h.session, want: h.lanes, up: true}
	r.accepted, r.last = s, h.session
	l.join(s, 0)
	p.meet(r, h.qkey)
	r.choose()
	return taken
}

func (l *lane) join(s *session, no uint8) {
	l.s, l.no = s, no
	s.lanes[no] = l
	l.rise()
}

// reply answers a preamble. A lane that was refused closes after it.
func (p *port) reply(l *lane, h *preamble, v verdict) {
	a := preamble{
		reply: true, verdict: v, lane: h.lane, lanes: h.lanes, mtu: uint32(p.dev.cfg.MTU), session: h.session,
		from: p.self, to: h.from, qkey: p.qkey,
	}
	if r := p.remotes[h.from]; v == taken && r.dialed != nil {
		a.last = r.dialed.num
	}
	l.out.buf = a.appendTo(l.out.buf)
	l.out.add(preambleLen)
	if v != taken {
		p.dev.stats.refused.Add(1)
		l.state, l.age = laneClosing, 0
	}
	p.soil(l)
}
