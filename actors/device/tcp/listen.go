package tcp

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// acceptor takes the connections of others. It belongs to the port's shard.
type acceptor struct {
	p        *port
	paused   bool     // nothing is accepted
	accepted int      // accepted connections
	idle     idleList // those of them that have no session yet
	uids     *uidChecker
}

// errNothing: there is nothing to take now.
var errNothing = errors.New("tcp: nothing")

// listen begins to listen, on a port that is the queue pair's number.
func (d *acceptor) listen(qpn uint16) (uint16, error) {
	at := address{d.p.self.gid, qpn}
	got, err := d.p.net.listen(at)
	switch {
	case errors.Is(err, inUse):
		return 0, fmt.Errorf("%w: port %d of %v: %w; end the program that has it (ss -ltnp), or take another port (0: any that is free)",
			device.ErrQPNInUse, qpn, AddrOf(at.gid), err)
	case err != nil:
		return 0, fmt.Errorf("tcp: listen on port %d of %v: %w", qpn, AddrOf(at.gid), err)
	}
	return got.qpn, nil
}

// acceptBatch is how many connections are accepted in one turn.
const acceptBatch = 16

// accept takes waiting connections. Without a descriptor for one, the oldest of those that
// have not identified themselves gives up its own.
func (d *acceptor) accept() {
	for range acceptBatch {
		s, from, err := d.p.net.accept()
		switch {
		case err == nil:
			d.addConn(s, from)
		case errors.Is(err, errNothing):
			return
		case passing(err): // its connection ended before it was taken; the next one
		case short(err) && d.evictOldest():
			d.p.warnLog.warn("tcp: accept: a connection without a session was closed", "why", err)
		default: // look again at the next tick
			d.p.warnLog.warn("tcp: accept", "why", err)
			d.paused = d.p.net.watchListener(false)
			d.p.setTick(true)
			return
		}
	}
}

// spareConn is how many accepted connections there may be beyond Config.MaxConn, so that a
// queue pair that has so many can still tell others why they do not get in.
const spareConn = 16

// addConn makes a lane of a connection. With too many, the oldest that has not
// identified itself is closed.
func (d *acceptor) addConn(s socket, from address) {
	p := d.p
	p.dev.stats.accepted.Add(1)
	if d.accepted >= p.dev.cfg.MaxConn+spareConn {
		p.dev.stats.crowded.Add(1)
		d.evictOldest()
	}
	l := p.newLane(laneAccepted, from.gid)
	l.accepted = true
	d.accepted++
	d.idle.add(l)
	if err := p.wrap(l, s); err != nil {
		p.warnLog.warn("tcp: accept", "why", err)
		p.closeLane(l)
		return
	}
	l.writable, l.readable = true, true
	switch {
	case d.uids != nil:
		d.checkUID(l, sockPair{near: from, far: p.self})
	case d.hasGreeting():
		d.sendGreeting(l, taken)
	}
	p.ready.queueRead(l)
}

// full reports whether there are as many connections of sessions as there may be.
func (d *acceptor) full() bool { return d.accepted-d.idle.n >= d.p.dev.cfg.MaxConn }

func (d *acceptor) crowded() verdict {
	d.p.dev.stats.crowded.Add(1)
	return tooMany
}

// evictOldest closes the oldest connection that has not identified itself; false: there is
// none.
func (d *acceptor) evictOldest() bool {
	l := d.idle.first
	if l == nil {
		return false
	}
	d.p.closeLane(l)
	return true
}

// forget forgets a connection that is closed.
func (d *acceptor) forget(l *lane) {
	d.idle.remove(l)
	d.accepted--
}

// resume ends a pause.
func (d *acceptor) resume() {
	if d.paused {
		d.paused = !d.p.net.watchListener(true)
	}
}

// idleList is a list of lanes, the first of which came first.
type idleList struct {
	first, last *lane
	n           int
}

// idleLink is a lane's place in an idleList.
type idleLink struct {
	before, behind *lane
	is             bool
}

func (q *idleList) add(l *lane) {
	l.idle = idleLink{before: q.last, is: true}
	if q.last == nil {
		q.first = l
	} else {
		q.last.idle.behind = l
	}
	q.last = l
	q.n++
}

// remove takes l out, if it is there.
func (q *idleList) remove(l *lane) {
	at := l.idle
	if !at.is {
		return
	}
	if at.before == nil {
		q.first = at.behind
	} else {
		at.before.idle.behind = at.behind
	}
	if at.behind == nil {
		q.last = at.before
	} else {
		at.behind.idle.before = at.before
	}
	l.idle = idleLink{}
	q.n--
}
