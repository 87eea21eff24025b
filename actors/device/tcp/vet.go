package tcp

import (
	"errors"
)

// Without credentials, the processes of this host that are to meet on loopback are those of
// one user. The accepting side looks at the dialer's socket first, and then greets; the
// dialer looks at the accepting one's socket when it is greeted, since a connection that was
// not accepted yet belongs to nobody; then it sends its preamble. If the system does not
// answer, nobody gets in. Config.AnyLocalUser lets everybody in.

// greets reports whether connections begin with a greeting.
func (d *door) greets() bool {
	return d.p.dev.cfg.Credentials == nil && d.p.dev.cfg.Addr.IsLoopback()
}

// vet has the owner of the other side's socket looked up. Nothing is read or written until
// that is known.
func (d *door) vet(l *lane, sockets sockPair) {
	l.state = laneVetting
	l.asked = &question{l: l, pair: sockets}
	d.usher.ask(l.asked)
}

// onVetted takes what was found out about a lane.
func (d *door) onVetted(l *lane) {
	p, why := d.p, l.asked.err
	l.asked = nil
	if errors.Is(why, errNoSocket) {
		p.broken(l, connReset) // it was closed meanwhile
		return
	}
	if why != nil {
		p.dev.stats.otherUsers.Add(1)
		p.complaints.warn("tcp: no connection within this host", "address", AddrOf(l.peer), "dialed", !l.guest, "why", why)
	}
	switch {
	case why == nil && l.guest:
		d.greet(l, taken)
	case why == nil:
		p.dialer.ask(l)
	case l.guest:
		p.dev.stats.refused.Add(1)
		d.greet(l, wrongUser)
	default:
		p.dialer.failed(l, why, wrongUser.status())
	}
}

// greet is the first word on a connection that was accepted on loopback. If it is a
// refusal, it is the last one as well.
func (d *door) greet(l *lane, v verdict) {
	l.out.buf = appendGreeting(l.out.buf, v)
	l.out.add(greetingLen)
	if l.state = laneStranger; v != taken {
		l.state, l.age = laneClosing, 0
	}
	d.p.turns.soil(l)
}

// onGreeting lets a dialed connection go on, when the other side has accepted it.
func (d *dialer) onGreeting(l *lane) {
	p := d.p
	v, err := parseGreeting(l.hello[:greetingLen])
	l.helloN = 0
	if err == nil && v != taken {
		err = errRefused
	}
	if err != nil {
		d.failed(l, err, greetingStatus(v, err))
		return
	}
	if p.door.usher == nil {
		d.ask(l)
		return
	}
	near, err := l.st.near()
	if err != nil {
		d.failed(l, err, statusOf(err))
		return
	}
	p.door.vet(l, sockPair{near: l.s.r.at, far: near})
}

// ask sends the preamble.
func (d *dialer) ask(l *lane) {
	p, s := d.p, l.s
	hello := preamble{
		lane: l.no, lanes: s.want, mtu: uint32(p.dev.cfg.MTU), session: s.num, from: p.self, to: s.r.at,
		keyed: true, qkey: p.qkey, meant: s.meant, last: s.r.last, alive: s.r.accepted != nil && s.r.last != 0,
	}
	l.asking = hello.appendTo(nil)
	l.state = laneAsking
	l.writable = true
	l.write()
}
