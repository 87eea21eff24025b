package tcp

import (
	"golang.org/x/sys/unix"
)

// progress moves bytes: pending output, and if it is time for a check of the
// sockets, input.
func (p *port) progress() {
	if len(p.dirty) > 0 {
		p.clean()
	}
	if p.skip > 0 {
		if p.skip--; len(p.ready) == 0 {
			return
		}
	}
	p.look()
	if len(p.ready) > 0 {
		p.idle, p.skip = 0, 0
		p.readAll()
	} else {
		p.idle = min(p.idle+1, maxSkip)
		if p.skip = p.idle; p.under > 0 {
			p.skip = min(p.skip, busySkip)
		}
	}
	if p.ticked { // what arrived before counts as heard
		p.ticked = false
		p.onTick()
	}
}

// look asks epoll for news.
func (p *port) look() {
	n := rawEpoll(p.ep, p.events[:])
	for i := range p.events[:n] {
		e := &p.events[i]
		switch e.Fd {
		case listenerID:
			p.accept()
		case tickID:
			drainTimer(p.tick)
			p.ticked = true
		case wakeID:
			drainTimer(p.wake)
			p.due = true
		default:
			if c := p.conns[e.Fd]; c.l != nil && c.gen == e.Pad {
				p.onEvent(c.l, e.Events)
			}
		}
	}
}

func (p *port) onEvent(l *lane, events uint32) {
	if l.state == laneConnecting {
		if events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			p.connected(l)
		}
		return
	}
	if events&(unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLRDHUP) != 0 {
		l.ended = true
	}
	if events&unix.EPOLLOUT != 0 && !l.writable {
		l.writable = true
		if l.out.size > 0 {
			p.soil(l)
		}
	}
	if events&^unix.EPOLLOUT != 0 {
		l.readable = true
		p.awaken(l)
	}
}

// soil makes l write its output at the end of the turn.
func (p *port) soil(l *lane) {
	if !l.dirty && l.writable {
		l.dirty = true
		p.dirty = append(p.dirty, l)
	}
}

// clean writes pending output.
func (p *port) clean() {
	list := p.dirty
	p.dirty, p.spare = p.spare[:0], nil
	for i, l := range list {
		list[i] = nil
		l.dirty = false
		l.write()
	}
	p.spare = list[:0]
}

// awaken lets l be read.
func (p *port) awaken(l *lane) {
	if !l.ready {
		l.ready = true
		p.ready = append(p.ready, l)
	}
}

// readAll reads from ready lanes. Lanes that are not done stay ready.
func (p *port) readAll() {
	n := len(p.ready)
	for i := range n {
		l := p.ready[i]
		l.ready = false
		if l.state != laneClosed {
			l.read()
		}
	}
	k := copy(p.ready, p.ready[n:])
	clear(p.ready[k:])
	p.ready = p.ready[:k]
}

func drainTimer(fd int) {
	var b [8]byte
	_, _ = unix.Read(fd, b[:])
}
