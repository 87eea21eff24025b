package tcp

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// remote is a queue pair elsewhere with which we communicate, or did. As either side
// dials when it has something to send, there may be two sessions with it, one dialed by
// us and one that we accepted. They begin at different times, but end together.
type remote struct {
	at       address
	dialed   *session
	accepted *session
	cur      *session // the one of these two for new requests

	last uint64 // number of the latest session that we accepted
	qkey uint32 // of the queue pair, if known
	// known: sessions with it were good since it had qkey; its death is to be
	// reported.
	known bool
	// doubt: a session broke without a bye, and the one that is being dialed will show
	// whether the queue pair is still there. resets counts tries that began well.
	doubt   bool
	resets  uint8
	saidBye bool // its end is reported when no session is left

	hasWrongKey bool   // it named one
	wrongKey    uint64 // the latest

	slots    uint32 // receives that packets of its take
	hold     hold
	heldFrom uint32

	idle      uint8 // ticks without a session
	forgotten bool
}

// session connects two queue pairs: lane 0, and for RDMA some more.
type session struct {
	r        *remote
	num      uint64
	dialed   bool
	lanes    [1 + maxLanes]*lane
	want     uint8      // lanes that it should have beside lane 0
	lastBulk int        // the last that bulk chose
	tries    uint8      // connections that were closed before a reply
	began    clock.Time // dialed
	meant    uint32     // dialed: the Q_Key that the other side should have

	crossing uint64 // dialed: the one that the other side was dialing when it took this one; 0: none

	up       bool // both sides have exchanged preambles
	used     bool // for a request, by either side
	leaving  bool // the other side said bye on a lane
	breaking bool // input of its lanes from before it broke is being read
	over     bool
}

// firstSession is the number of a queue pair's first session: the high half distinguishes
// it from earlier queue pairs at its address.
func firstSession() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[4:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// follows reports whether a session that a queue pair dials may come after another that it
// dialed. An earlier one was delayed while its dialer gave it up: its requests were
// reported as lost.
func follows(num, last uint64) bool { return num>>32 != last>>32 || num > last }

// reach returns the session for a request, which may have to be dialed; if it is nil,
// the status says why.
func (p *port) reach(wr *device.SendWR) (*session, device.Status) {
	t := &p.routes[wr.AH]
	r := t.last
	if r == nil || r.at.qpn != wr.QPN || r.forgotten {
		switch {
		case !p.dev.Reaches(t.gid):
			return nil, device.StatusUnreachable
		case wr.QPN == 0:
			return nil, device.StatusBadDestQPN
		}
		r = p.remoteAt(address{t.gid, wr.QPN})
		t.last = r
	}
	if r.cur != nil {
		return r.cur, device.StatusOK
	}
	return p.dialer.dial(r, wr.QKey)
}

// remoteAt finds the remote at an address, or makes it.
func (p *port) remoteAt(at address) *remote {
	r := p.remotes[at]
	if r == nil {
		r = &remote{at: at}
		p.remotes[at] = r
	}
	return r
}

// choose sets cur: a session that is up before one that is not.
func (r *remote) choose() {
	r.cur = nil
	for _, s := range [...]*session{r.accepted, r.dialed} {
		if s != nil && !s.leaving && (r.cur == nil || s.up) {
			r.cur = s
		}
	}
}

// bulk chooses a lane for RDMA.
func (s *session) bulk() *lane {
	for range maxLanes {
		s.lastBulk = s.lastBulk%maxLanes + 1
		if l := s.lanes[s.lastBulk]; l != nil && l.state == laneUp && !l.bye {
			return l
		}
	}
	return s.lanes[0]
}

// meet notes that the queue pair at r has a Q_Key: if it had another one before, that
// queue pair is gone.
func (p *port) meet(r *remote, qkey uint32) {
	if r.known && r.qkey != qkey {
		p.reportGone(r)
	}
	p.reportLeft(r) // the one before it
	if r.qkey != qkey && r.hold == shutOut {
		r.hold = notHeld // that was another queue pair
	}
	r.known, r.qkey, r.doubt, r.resets = true, qkey, false, 0
}

// meetDialed notes what the reply to our preamble says about who is there. One that
// does not say its Q_Key has another than we meant.
func (p *port) meetDialed(s *session, h *preamble) {
	r := s.r
	if h.keyed {
		p.meet(r, h.qkey)
		return
	}
	if r.qkey == s.meant {
		p.reportGone(r)
	}
	r.known, r.doubt, r.resets = false, false, 0
}

// throttled reports whether a queue pair at a host, perhaps a known one, may not begin a
// session yet, since its host named wrong keys. A queue pair that was there before and has
// named none is not to suffer for others of its host.
func (p *port) throttled(host device.GID, r *remote) bool {
	return (r == nil || !r.known || r.hasWrongKey) && p.dev.keyGuard.throttled(host)
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
		s.r.saidBye = true
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

// broken handles a connection that ended, or whose stream failed.
func (p *port) broken(l *lane, why error) {
	s := l.s
	switch {
	case l.state == laneClosed:
	case s == nil:
		l.untrusted(why)
		p.closeLane(l)
	case l.state != laneUp:
		if why = p.dialer.again(l, why); why != nil {
			l.untrusted(why)
			p.dialer.failed(l, why, dialStatus(why))
		}
	case s.breaking:
		p.closeLane(l)
	default:
		p.lost(l, why)
	}
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
	case errors.Is(why, errWrongKeys):
		p.sendAway(r)
		return
	case errors.Is(why, errSentAway):
		p.warnLog.warn("tcp: sent away", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", why)
		p.endAll(r, device.StatusUnknownPeer)
		return
	}
	p.dev.stats.violations.Add(1)
	p.warnLog.warn("tcp: protocol violated", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", why)
	p.endAll(r, device.StatusAbort)
}

// sendAway ends the sessions with a queue pair that named wrong keys, with a bye that says so.
func (p *port) sendAway(r *remote) {
	p.dev.stats.sentAway.Add(1)
	p.warnLog.warn("tcp: sessions ended", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", errWrongKeys)
	for _, s := range [...]*session{r.dialed, r.accepted} {
		if s == nil {
			continue
		}
		s.breaking = true // what happens while the bye is written has no consequences
		s.sayBye(device.StatusUnknownPeer)
		for _, l := range s.lanes {
			if l != nil && l.state == laneUp {
				l.drain()
			}
		}
		p.end(s, device.StatusUnknownPeer)
	}
}

// broke: the sessions with r are lost. If something depends on it, the other side is
// dialed once more: if nothing listens there, it is gone.
func (p *port) broke(r *remote, why error) {
	p.dev.stats.broken.Add(1)
	p.infoLog.info("tcp: session lost", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", why)
	if p.endAll(r, statusOf(why)) && r.known {
		r.doubt = true
		if s, st := p.dialer.dial(r, r.qkey); s == nil {
			p.judge(r, st)
		}
	}
}

// judge: the dialing of a remote in doubt failed with st.
func (p *port) judge(r *remote, st device.Status) {
	if r.doubt {
		r.doubt = false
		if st == device.StatusBadDestQPN {
			p.reportGone(r)
		}
	}
}

// reportGone reports that r is gone, once.
func (p *port) reportGone(r *remote) {
	r.doubt = false
	if r.known {
		r.known = false
		p.inbox.arrival(device.OpGone, &r.at).QKey = r.qkey
		p.dev.stats.gone.Add(1)
		p.infoLog.info("tcp: a queue pair is gone", "address", AddrOf(r.at.gid), "port", r.at.qpn)
	}
}

// reportLeft reports that r was closed in order, if it has said so, once.
func (p *port) reportLeft(r *remote) {
	if r.saidBye {
		r.saidBye = false
		c := p.inbox.arrival(device.OpGone, &r.at)
		c.QKey, c.Left = r.qkey, true
		p.infoLog.info("tcp: a queue pair was closed", "address", AddrOf(r.at.gid), "port", r.at.qpn)
	}
}

// end closes a session; requests in progress on it end with st.
func (p *port) end(s *session, st device.Status) {
	if s.over {
		return
	}
	s.over = true
	r := s.r
	if r.dialed == s {
		r.dialed = nil
	} else if r.accepted == s {
		r.accepted = nil
	}
	r.choose()
	r.idle = 0
	if r.saidBye && r.dialed == nil && r.accepted == nil {
		p.reportLeft(r) // before the requests that fail of it
	}
	for _, l := range s.lanes {
		if l != nil {
			p.closeLane(l)
			p.reqs.fail(l, st)
		}
	}
}

// endAll ends both sessions with r, and reports whether one had been used.
func (p *port) endAll(r *remote, st device.Status) (used bool) {
	for _, s := range [...]*session{r.dialed, r.accepted} {
		if s != nil {
			used = used || s.used
			p.end(s, st)
		}
	}
	return used
}

// dialStatus is the status of requests that waited for a connection that failed
// with why.
func dialStatus(why error) device.Status {
	switch {
	case reset(why):
		return device.StatusBadDestQPN
	case short(why): // nothing went out: later
		return device.StatusRNR
	case isErrno(why), errors.Is(why, errSilent):
		return statusOf(why)
	default: // credentials
		return device.StatusUnknownPeer
	}
}

// isErrno reports whether err is an error of the system's.
func isErrno(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno)
}

// refusals are why hosts were not reached because of credentials or versions, for the operations
// that end with device.StatusUnknownPeer or StatusMismatch.
type refusals struct{ of map[device.GID]error }

// maxRefusals bounds what is remembered; all of it is forgotten beyond.
const maxRefusals = 1 << 10

// note remembers why a connection to a host was not made.
func (r *refusals) note(gid device.GID, why error) {
	if r.of == nil || len(r.of) >= maxRefusals {
		r.of = map[device.GID]error{}
	}
	r.of[gid] = why
}

// forget is for a host that was reached.
func (r *refusals) forget(gid device.GID) { delete(r.of, gid) }

// Why implements nic.Explainer.
func (r *refusals) Why(gid device.GID) error { return r.of[gid] }

// holder holds remote queue pairs back.
type holder struct{ of *port }

// HoldBack implements nic.Holder.
func (h holder) HoldBack(from nic.Source, on bool, msgID uint32) {
	r := h.of.remotes[address{from.GID, from.QPN}]
	switch {
	case r == nil || r.hold == shutOut:
	case on:
		r.hold, r.heldFrom = heldBack, msgID
	default:
		r.hold = notHeld
	}
}

// Shut implements nic.Holder.
func (h holder) Shut(from nic.Source) {
	r := h.of.remoteAt(address{from.GID, from.QPN})
	if !r.known {
		r.qkey = from.QKey
	}
	if r.qkey == from.QKey {
		r.hold = shutOut
	}
}

// maxShutOut bounds the remote queue pairs: up to so many, one that is shut out is remembered also without a session.
const maxShutOut = 1 << 14

// hold is how a remote queue pair is refused.
type hold uint8

const (
	notHeld  hold = iota
	heldBack      // its messages from remote.heldFrom on
	shutOut       // everything, as long as it is that queue pair
)
