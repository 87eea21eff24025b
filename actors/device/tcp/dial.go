package tcp

import (
	"errors"
	"io"
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// dialer connects a queue pair to others. It belongs to the port's shard.
type dialer struct {
	p       *port
	session uint64 // number of the latest that was dialed
}

// dial begins a session with a queue pair that should have a Q_Key. Requests may be put on
// it at once. If the session is nil, the status is the reason.
func (d *dialer) dial(r *remote, qkey uint32) (*session, device.Status) {
	p := d.p
	if p.throttled(r.at.gid, r) {
		return nil, hostThrottled.status()
	}
	p.endAll(r, device.StatusBadDestQPN) // what the other side has left, but not on all lanes
	d.session++
	s := &session{r: r, num: d.session, dialed: true, want: uint8(p.dev.cfg.Lanes), meant: qkey, began: p.dev.cfg.Clock.Now()}
	if err := d.connect(s, 0); short(err) {
		p.refusals.note(r.at.gid, device.Unsent(err, "tcp: no connection to port %d of %v", r.at.qpn, AddrOf(r.at.gid)))
		return nil, nic.Unsent
	} else if err != nil {
		return nil, statusOf(err)
	}
	r.dialed = s
	r.choose()
	return s, device.StatusOK
}

// connect dials a lane of s.
func (d *dialer) connect(s *session, no uint8) error {
	_, err := d.open(s, no)
	return err
}

// open begins to connect a lane.
func (d *dialer) open(s *session, no uint8) (*lane, error) {
	p := d.p
	r := s.r
	l := p.newLane(laneConnecting, r.at.gid)
	l.s, l.no, l.sent = s, no, preambleLen
	if err := p.net.dial(l, r.at); err != nil {
		p.closeLane(l)
		return nil, err
	}
	s.lanes[no] = l
	return l, nil
}

// connected: the connecting of a dialed lane's socket is over.
func (d *dialer) connected(l *lane) {
	p := d.p
	err := p.net.dialed(l)
	if errors.Is(err, errNothing) {
		return
	}
	if err == nil {
		err = p.wrap(l, l.sock)
	}
	if err != nil {
		p.broken(l, err)
		return
	}
	if p.acceptor.hasGreeting() {
		l.state = laneAwaitingGreeting
		return
	}
	d.sendPreamble(l)
}

// again dials a lane once more that was closed before there was a reply: the other side may
// have been short of connections or descriptors. What is to be sent waits for the reply. The
// session begins anew, since the other side may have taken the first one. The error is why the lane is not
// dialed: the one that ended it, or what this side lacks.
func (d *dialer) again(l *lane, why error) error {
	s := l.s
	if !reset(why) || s.r.doubt || s.tries == maxTries || d.p.dev.cfg.Clock.Now().Sub(s.began) > d.p.timeout {
		return why
	}
	s.tries++
	if l.no == 0 {
		d.session++
		s.num = d.session
	}
	next, err := d.open(s, l.no)
	if err != nil {
		return err
	}
	next.age = l.age // one timeout for all of them
	next.out, l.out = l.out, out{}
	d.p.reqs.move(l, next)
	d.p.closeLane(l)
	return nil
}

// maxTries is how many connections of a session may be closed so, within Config.Timeout.
const maxTries = 16

// failed handles a lane that was not established. Without lane 0 there is no
// session.
func (d *dialer) failed(l *lane, why error, st device.Status) {
	p := d.p
	s := l.s
	if l.no != 0 {
		p.warnLog.warn("tcp: lane", "address", AddrOf(s.r.at.gid), "port", s.r.at.qpn, "why", why)
		s.lanes[l.no] = nil
		p.closeLane(l)
		return
	}
	r := s.r
	if st == device.StatusUnknownPeer || st == device.StatusMismatch {
		p.refusals.note(r.at.gid, why)
	}
	p.infoLog.info("tcp: no connection", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", why)
	p.end(s, st)
	if r.cur != nil {
		r.doubt = false
		return
	}
	if r.doubt && reset(why) {
		if r.resets++; r.resets < maxResets {
			if next, again := d.dial(r, s.meant); next == nil {
				p.judge(r, again)
			}
			return
		}
	}
	p.judge(r, st)
}

// maxResets bounds the connections to a queue pair in doubt that are accepted and
// then reset, which happens with a process that is about to end.
const maxResets = 4

// errSilent: nothing was received for Config.Timeout.
var errSilent = errors.New("tcp: nothing was heard within the timeout")

// errRefused: the other side refused the connection.
var errRefused = errors.New("tcp: refused")

// reset reports whether a connection was accepted and then reset.
func reset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, connReset) || errors.Is(err, brokenPipe)
}

// short reports whether err is of a resource that this side has again soon, perhaps.
func short(err error) bool {
	return err != nil && slices.ContainsFunc(shortages, func(e error) bool { return errors.Is(err, e) })
}

// statusOf is the status of requests on a connection that ended with err.
func statusOf(err error) device.Status {
	switch {
	case errors.Is(err, connRefused):
		return device.StatusBadDestQPN
	case errors.Is(err, timedOut), errors.Is(err, errSilent):
		return device.StatusUnresponsive
	case slices.ContainsFunc(unreachable, func(e error) bool { return errors.Is(err, e) }):
		return device.StatusUnreachable
	default:
		return device.StatusAbort
	}
}
