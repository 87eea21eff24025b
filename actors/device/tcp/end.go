package tcp

import (
	"errors"
	"syscall"

	"github.com/efactor/efactor/actors/device"
)

// broken handles a connection that ended, or whose stream failed.
func (p *port) broken(l *lane, why error) {
	s := l.s
	switch {
	case l.state == laneClosed:
	case s == nil:
		l.untrusted(why)
		p.closeLane(l)
	case l.state != laneUp && p.dialer.again(l, why):
	case l.state != laneUp:
		l.untrusted(why)
		p.dialer.failed(l, why, dialStatus(why))
	case s.breaking:
		p.closeLane(l)
	default:
		p.lost(l, why)
	}
}

// dialStatus is the status of requests that waited for a connection that failed
// with why.
func dialStatus(why error) device.Status {
	switch {
	case reset(why):
		return device.StatusBadDestQPN
	case isErrno(why), errors.Is(why, errSilent):
		return statusOf(why)
	default: // credentials
		return device.StatusUnknownPeer
	}
}

// untrusted tells the operator, on either side, of a connection that ended because of
// credentials. The error of crypto/tls or crypto/x509 says what is wrong.
func (l *lane) untrusted(why error) {
	p := l.p
	if p.dev.cfg.Credentials == nil || reset(why) || isErrno(why) || errors.Is(why, errSilent) || errors.Is(why, errBrokenOff) {
		return
	}
	p.dev.stats.untrusted.Add(1)
	p.complaints.warn("tcp: no TLS connection", "address", AddrOf(l.peer), "dialed", !l.guest, "why", why)
}

// lost handles a session's lane that ended. Bytes that have arrived on the other
// lanes still count: answers to requests, and a bye.
func (p *port) lost(l *lane, why error) {
	s := l.s
	p.closeLane(l)
	if !s.leaving {
		s.breaking = true
		for _, o := range s.lanes {
			if o != nil && o.state == laneUp {
				o.readable, o.ended = true, true
				o.read()
			}
		}
		s.breaking = false
	}
	switch {
	case s.over:
	case s.leaving:
		p.left(s)
	default:
		p.broke(s.r, why)
	}
}

// violated handles a frame from the other side after which there is no session.
func (p *port) violated(l *lane, why error) {
	r := l.s.r
	switch {
	case errors.Is(why, errGuesses):
		p.sendAway(r)
		return
	case errors.Is(why, errSentAway):
		p.complaints.warn("tcp: sent away", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", why)
		p.endAll(r, device.StatusUnknownPeer)
		return
	}
	p.dev.stats.violations.Add(1)
	p.complaints.warn("tcp: protocol violated", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", why)
	p.endAll(r, device.StatusAbort)
}

// onBye handles the closing of the other side's queue pair. Answers may still be on
// other lanes.
func (l *lane) onBye() {
	s := l.s
	l.bye, s.leaving = true, true
	s.r.choose()
	if !s.breaking {
		l.p.left(s)
	}
}

// left ends a session that the other side has left on all lanes. Another one of the pair
// may still bring answers, and its own bye.
func (p *port) left(s *session) {
	for _, l := range s.lanes {
		if l != nil && l.state == laneUp && !l.bye {
			return
		}
	}
	if s.r.known { // else nobody knows of whom this is
		s.r.said = true
	}
	s.r.known, s.r.doubt = false, false
	p.end(s, device.StatusBadDestQPN)
}

// sayBye ends a session from our side, with a bye on its lanes that may say why.
func (s *session) sayBye(st device.Status) {
	bye := frame{kind: kindBye, status: st}
	for _, l := range s.lanes {
		if l == nil || l.state != laneUp {
			continue
		}
		l.out.frame(&bye)
		for i := 0; i < writeTurns && l.out.size > 0 && l.writable && l.state == laneUp; i++ {
			l.write()
		}
		if l.state == laneUp && l.out.size == 0 {
			l.st.shut()
		}
	}
}

// drain reads and discards what has arrived: otherwise the kernel would answer it
// with a reset, which could overtake the bye.
func (l *lane) drain() {
	for range 64 {
		if n, err := l.st.readv(nil, l.p.trash[:]); n == 0 || err != nil {
			return
		}
	}
}

// isErrno reports whether err is an error of the system's.
func isErrno(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno)
}
