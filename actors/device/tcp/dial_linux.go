package tcp

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// maxResets bounds the connections to a queue pair in doubt that are accepted and
// then reset, which happens with a process that is about to end.
const maxResets = 4

// errSilent: nothing was received for Config.Timeout.
var errSilent = errors.New("tcp: nothing was heard within the timeout")

// dialer connects a queue pair to others. It belongs to the port's shard.
type dialer struct {
	p       *port
	session uint64 // number of the latest that was dialed
}

// dial begins a session with a queue pair that should have a Q_Key. Requests may be put on
// it at once. If the session is nil, the status is the reason.
func (d *dialer) dial(r *remote, qkey uint32) (*session, device.Status) {
	p := d.p
	if p.mustWait(r.at.gid, r) {
		return nil, mustWait.status()
	}
	p.endAll(r, device.StatusBadDestQPN) // what the other side has left, but not on all lanes
	d.session++
	s := &session{r: r, num: d.session, dialed: true, want: uint8(p.dev.cfg.Lanes), meant: qkey, began: p.dev.cfg.Clock.Now()}
	if err := d.connect(s, 0); err != nil {
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

// again dials a lane once more that was closed before there was a reply: the other side may
// have been short of connections or descriptors. What is to be sent waits for the reply. The
// session begins anew, since the other side may have taken the first one.
func (d *dialer) again(l *lane, why error) bool {
	s := l.s
	if !reset(why) || s.r.doubt || s.tries == maxTries || d.p.dev.cfg.Clock.Now().Sub(s.began) > d.p.dev.cfg.Timeout {
		return false
	}
	s.tries++
	if l.no == 0 {
		d.session++
		s.num = d.session
	}
	next, err := d.open(s, l.no)
	if err != nil {
		return false
	}
	next.age = l.age // one timeout for all of them
	next.out, l.out = l.out, out{}
	d.p.reqs.move(l, next)
	d.p.closeLane(l)
	return true
}

// maxTries is how many connections of a session may be closed so, within Config.Timeout.
const maxTries = 16

// open begins to connect a lane.
func (d *dialer) open(s *session, no uint8) (*lane, error) {
	p := d.p
	r := s.r
	fd, err := d.newSocket()
	for (err == unix.EMFILE || err == unix.ENFILE) && p.door.dismiss() { //nolint:errorlint // bare errnos
		fd, err = d.newSocket()
	}
	if err != nil {
		return nil, err
	}
	l := p.newLane(laneConnecting, r.at.gid)
	l.s, l.no, l.sock, l.sent = s, no, fd, preambleLen
	err = unix.Connect(fd, sockaddr(r.at))
	if err == nil || errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		err = p.watch(l, fd)
	}
	if err != nil {
		p.closeLane(l)
		return nil, err
	}
	s.lanes[no] = l
	return l, nil
}

// newSocket makes a socket that is bound to our address.
func (d *dialer) newSocket() (int, error) {
	p := d.p
	fd, err := unix.Socket(p.family(), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	// The port is chosen by connect, so that each address may use all of them; one that
	// is in use for this must not keep a queue pair from listening on it.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	if err := unix.Bind(fd, sockaddr(address{gid: p.self.gid})); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	p.tune(fd)
	return fd, nil
}

// connected: the socket of a dialed lane became writable, or failed.
func (d *dialer) connected(l *lane) {
	p := d.p
	errno, err := unix.GetsockoptInt(l.sock, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
	case errno != 0:
		err = unix.Errno(errno)
	case d.toItself(l.sock):
		err = unix.ECONNREFUSED
	default:
		err = p.wrap(l, l.sock)
	}
	if err != nil {
		p.broken(l, err)
		return
	}
	if p.door.greets() {
		l.state = laneKnocking
		return
	}
	d.ask(l)
}

// toItself reports whether a socket is connected to itself (RFC 9293, 3.5:
// simultaneous open): it dialed a port without listener, and happened to get this port
// itself.
func (d *dialer) toItself(fd int) bool {
	a, err := unix.Getsockname(fd)
	b, err2 := unix.Getpeername(fd)
	return err == nil && err2 == nil && addressOf(a) == addressOf(b)
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
				p.complaints.warn("tcp: lane", "address", AddrOf(s.r.at.gid), "port", s.r.at.qpn, "why", err)
			}
		}
	default:
		l.rise()
	}
}

// errRefused: the other side refused the connection.
var errRefused = errors.New("tcp: refused")

// rise makes a lane part of its session.
func (l *lane) rise() {
	l.state, l.age = laneUp, 0
	l.p.refusals.forget(l.peer)
	l.heard = true
	l.p.turns.soil(l)
}

// failed handles a lane that was not established. Without lane 0 there is no
// session.
func (d *dialer) failed(l *lane, why error, st device.Status) {
	p := d.p
	s := l.s
	if l.no != 0 {
		p.complaints.warn("tcp: lane", "address", AddrOf(s.r.at.gid), "port", s.r.at.qpn, "why", why)
		s.lanes[l.no] = nil
		p.closeLane(l)
		return
	}
	r := s.r
	if st == device.StatusUnknownPeer || st == device.StatusMismatch {
		p.refusals.note(r.at.gid, why)
	}
	p.notes.info("tcp: no connection", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", why)
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

// reset reports whether a connection was accepted and then reset.
func reset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// statusOf is the status of requests on a connection that ended with err.
func statusOf(err error) device.Status {
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return device.StatusBadDestQPN
	case errors.Is(err, unix.ETIMEDOUT), errors.Is(err, errSilent):
		return device.StatusUnresponsive
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EADDRNOTAVAIL),
		errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENETDOWN),
		errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		return device.StatusUnreachable
	default:
		return device.StatusAbort
	}
}
