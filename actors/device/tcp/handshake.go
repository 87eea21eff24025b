package tcp

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// What happens on a connection before frames, on both sides. The dialing side connects (dial.go)
// and the accepting side accepts (listen.go); then
//
//	checkUID, sendGreeting -> onGreeting, checkUID     on loopback without credentials
//	onPreamble, admitConn  <- sendPreamble
//	reply                  -> onReply
//
// and the lane is part of a session. Without credentials, the processes of this host that are to meet on loopback are those of
// one user. The accepting side looks at the dialer's socket first, and then sends its
// greeting; the dialer looks at the accepting one's socket when it has that, since a connection that was
// not accepted yet belongs to nobody; then it sends its preamble. If the system does not
// answer, nobody gets in. Config.AnyLocalUser lets everybody in.

// hasGreeting reports whether connections begin with a greeting.
func (d *acceptor) hasGreeting() bool {
	return d.p.dev.cfg.Credentials == nil && d.p.dev.cfg.Addr.IsLoopback()
}

// checkUID has the owner of the other side's socket looked up. Nothing is read or written until
// that is known.
func (d *acceptor) checkUID(l *lane, sockets sockPair) {
	l.state = laneCheckingUID
	l.uidQuery = &uidQuery{l: l, pair: sockets}
	d.uids.ask(l.uidQuery)
}

// onUID takes what was found out about a lane.
func (d *acceptor) onUID(l *lane) {
	p, why := d.p, l.uidQuery.err
	l.uidQuery = nil
	if errors.Is(why, errNoSocket) {
		p.broken(l, connReset) // it was closed meanwhile
		return
	}
	if why != nil {
		p.dev.stats.otherUsers.Add(1)
		p.warnLog.warn("tcp: no connection within this host", "address", AddrOf(l.peer), "dialed", !l.accepted, "why", why)
	}
	switch {
	case why == nil && l.accepted:
		d.sendGreeting(l, taken)
	case why == nil:
		p.dialer.sendPreamble(l)
	case l.accepted:
		p.dev.stats.refused.Add(1)
		d.sendGreeting(l, wrongUser)
	default:
		p.dialer.failed(l, why, wrongUser.status())
	}
}

// sendGreeting is the first word on a connection that was accepted on loopback. If it is a
// refusal, it is the last one as well.
func (d *acceptor) sendGreeting(l *lane, v verdict) {
	l.out.buf = appendGreeting(l.out.buf, v)
	l.out.add(greetingLen)
	if l.state = laneAccepted; v != taken {
		l.state, l.age = laneClosing, 0
	}
	d.p.ready.queueWrite(l)
}

// readHandshake reads what comes before frames.
func (l *lane) readHandshake() (n, asked int, err error) {
	length := preambleLen
	if l.state == laneAwaitingGreeting {
		length = greetingLen
	}
	rest := l.handshake[l.handshakeN:length]
	n, err = l.st.readv(nil, rest)
	if l.handshakeN += n; l.handshakeN < length {
		return n, len(rest), err
	}
	if l.state == laneAwaitingGreeting {
		l.p.dialer.onGreeting(l)
		return n, len(rest), err
	}
	var h preamble
	if err := h.parse(l.handshake[:]); l.accepted {
		l.p.acceptor.onPreamble(l, &h, err)
	} else {
		l.p.dialer.onPreamble(l, &h, err)
	}
	return n, len(rest), err
}

// onGreeting lets a dialed connection go on, when the other side has accepted it.
func (d *dialer) onGreeting(l *lane) {
	p := d.p
	v, err := parseGreeting(l.handshake[:greetingLen])
	l.handshakeN = 0
	if err == nil && v != taken {
		err = errRefused
	}
	if err != nil {
		d.failed(l, err, greetingStatus(v, err))
		return
	}
	if p.acceptor.uids == nil {
		d.sendPreamble(l)
		return
	}
	near, err := l.st.near()
	if err != nil {
		d.failed(l, err, dialStatus(err))
		return
	}
	p.acceptor.checkUID(l, sockPair{near: l.s.r.at, far: near})
}

// sendPreamble sends the preamble.
func (d *dialer) sendPreamble(l *lane) {
	p, s := d.p, l.s
	hello := preamble{
		lane: l.no, lanes: s.want, mtu: uint32(p.dev.cfg.MTU), session: s.num, from: p.self, to: s.r.at,
		keyed: true, qkey: p.qkey, meant: s.meant, last: s.r.last, alive: s.r.accepted != nil && s.r.last != 0,
	}
	l.unsentPreamble = hello.appendTo(nil)
	l.state = laneAwaitingReply
	l.writable = true
	l.write()
}

// writePreamble writes what is left of our preamble, as far as the stream has room.
func (l *lane) writePreamble() {
	if len(l.unsentPreamble) == 0 || !l.writable {
		return
	}
	n, err := l.st.writev([][]byte{l.unsentPreamble})
	if err != nil {
		l.cannotWrite(err)
		return
	}
	l.unsentPreamble = l.unsentPreamble[n:]
	l.writable = len(l.unsentPreamble) == 0
}

// onPreamble handles the complete preamble of a connection.
func (d *acceptor) onPreamble(l *lane, h *preamble, err error) {
	switch {
	case err != nil && !errors.Is(err, errVersion) || h.reply:
		d.p.dev.stats.strangers.Add(1)
		l.write() // our greeting, from which a peer with credentials learns that there are none here
		d.p.closeLane(l)
	case err != nil:
		d.p.warnLog.warn("tcp: not the same release", "address", AddrOf(l.peer), "why", err)
		d.reply(l, &preamble{}, wrongVersion)
	default:
		d.reply(l, h, d.admitConn(l, h))
	}
}

// admitConn decides on an accepted connection, and adds it to its session.
func (d *acceptor) admitConn(l *lane, h *preamble) verdict {
	p := d.p
	switch {
	case h.to != p.self:
		return wrongPlace
	case int(h.mtu) != p.dev.cfg.MTU:
		return wrongMTU
	}
	if err := l.st.vouch(h.raw()); err != nil {
		p.dev.stats.impostors.Add(1)
		p.warnLog.warn("tcp: impostor", "address", AddrOf(l.peer), "says", AddrOf(h.from.gid), "port", h.from.qpn, "why", err)
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
func (d *acceptor) admitSession(l *lane, h *preamble) verdict {
	p := d.p
	if l.st.over() { // its dialer may be dead, and another process have the port: none ends it before it has the reply
		return wrongSession
	}
	if r := p.remotes[h.from]; r == nil || r.accepted == nil { // it takes nobody's place
		switch {
		case p.throttled(h.from.gid, r):
			return hostThrottled
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

// reply answers a preamble. A lane that was refused closes after it. Our Q_Key is
// for a peer that has proved to be one: by credentials, by its user, or by knowing the key. For
// others a reply shows whether they do, so that each counts as a wrong key.
func (d *acceptor) reply(l *lane, h *preamble, v verdict) {
	p := d.p
	a := preamble{
		reply: true, verdict: v, lane: h.lane, lanes: h.lanes, mtu: uint32(p.dev.cfg.MTU), session: h.session,
		from: p.self, to: h.from,
	}
	switch {
	case v != taken:
	case p.dev.cfg.Credentials != nil || d.uids != nil || h.meant == p.qkey:
		a.keyed, a.qkey = true, p.qkey
	default:
		l.wrongKey(uint64(h.meant))
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
	p.ready.queueWrite(l)
	if l.tooManyWrongKeys {
		p.sendAway(l.s.r)
	}
}

// onPreamble handles the complete reply to our preamble.
func (d *dialer) onPreamble(l *lane, h *preamble, err error) {
	switch {
	case errors.Is(err, errVersion):
		d.failed(l, err, device.StatusMismatch)
	case err != nil:
		d.failed(l, err, device.StatusBadDestQPN)
	default:
		d.onReply(l, h)
	}
}

// onReply handles a reply to our preamble.
func (d *dialer) onReply(l *lane, h *preamble) {
	p := d.p
	s := l.s
	ours := h.reply && h.session == s.num && h.lane == l.no && h.from == s.r.at && h.to == p.self
	switch {
	case !ours:
		d.failed(l, errPreamble, device.StatusBadDestQPN)
	case h.verdict != taken:
		d.failed(l, fmt.Errorf("%w: %s", errRefused, verdictText[h.verdict]), h.verdict.status())
	case int(h.mtu) != p.dev.cfg.MTU:
		d.failed(l, errRefused, device.StatusMismatch)
	case !h.keyed && p.dev.cfg.Credentials != nil, l.no != 0 && h.keyed && h.qkey != s.r.qkey:
		d.failed(l, errPreamble, device.StatusBadDestQPN)
	case l.st.vouch(h.raw()) != nil:
		p.dev.stats.impostors.Add(1)
		d.failed(l, errImpostor, device.StatusUnknownPeer)
	case l.no == 0:
		l.rise()
		s.up, s.crossing = true, h.last
		p.meetDialed(s, h)
		s.r.choose()
		for no := uint8(1); no <= s.want; no++ {
			if err := d.connect(s, no); err != nil {
				p.warnLog.warn("tcp: lane", "address", AddrOf(s.r.at.gid), "port", s.r.at.qpn, "why", err)
			}
		}
	default:
		l.rise()
	}
}
