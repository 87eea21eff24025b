package tcp

import (
	"github.com/efactor/efactor/actors/device"
)

// admitConn decides on an accepted connection, and adds it to its session.
func (d *door) admitConn(l *lane, h *preamble) verdict {
	p := d.p
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
		return d.admitSession(l, h)
	}
	r := p.remotes[h.from]
	switch {
	case r == nil || r.accepted == nil || r.accepted.num != h.session || r.accepted.leaving || r.qkey != h.qkey ||
		h.lane > r.accepted.want || r.accepted.lanes[h.lane] != nil:
		return wrongSession
	case d.full():
		return d.crowded()
	}
	l.join(r.accepted, h.lane)
	return taken
}

// admitSession begins a session that the other side dialed. The preamble's state
// shows which of the earlier sessions have ended for it: their bytes are not taken
// any more.
func (d *door) admitSession(l *lane, h *preamble) verdict {
	p := d.p
	if l.st.over() { // its dialer may be dead, and another process have the port: none ends it before it has the reply
		return wrongSession
	}
	if r := p.remotes[h.from]; r == nil || r.accepted == nil { // it takes nobody's place
		switch {
		case p.mustWait(h.from.gid, r):
			return mustWait
		case d.full():
			return d.crowded()
		}
	}
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

// full reports whether there are as many connections of sessions as there may be.
func (d *door) full() bool { return d.guests-d.line.n >= d.p.dev.cfg.MaxConn }

func (d *door) crowded() verdict {
	d.p.dev.stats.crowded.Add(1)
	return tooMany
}

// join makes an accepted connection part of a session.
func (l *lane) join(s *session, no uint8) {
	l.p.door.line.remove(l)
	l.s, l.no = s, no
	s.lanes[no] = l
	l.rise()
}

// reply answers a preamble. A lane that was refused closes after it. Our Q_Key is
// for a peer that has proved to be one: by credentials, by its user, or by knowing the key. For
// others a reply shows whether they do, so that each is a guess.
func (d *door) reply(l *lane, h *preamble, v verdict) {
	p := d.p
	a := preamble{
		reply: true, verdict: v, lane: h.lane, lanes: h.lanes, mtu: uint32(p.dev.cfg.MTU), session: h.session,
		from: p.self, to: h.from,
	}
	switch {
	case v != taken:
	case p.dev.cfg.Credentials != nil || d.usher != nil || h.meant == p.qkey:
		a.keyed, a.qkey = true, p.qkey
	default:
		l.guessed(uint64(h.meant))
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
	p.turns.soil(l)
	if l.tooCurious {
		p.sendAway(l.s.r)
	}
}
