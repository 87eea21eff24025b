package tcp

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// acceptBatch is how many connections are accepted in one turn.
const acceptBatch = 16

// spareConn is how many accepted connections there may be beyond Config.MaxConn, so that a
// queue pair that has so many can still tell others why they do not get in.
const spareConn = 16

// door takes the connections of others. It belongs to the port's shard.
type door struct {
	p      *port
	deaf   bool // nothing is accepted
	guests int  // accepted connections
	line   line // those of them that have no session yet
	usher  *usher
}

// errNothing: there is nothing to take now.
var errNothing = errors.New("tcp: nothing")

// listen begins to listen, on a port that is the queue pair's number.
func (d *door) listen(qpn uint16) (uint16, error) {
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

// accept takes waiting connections. Without a descriptor for one, the oldest of those that
// have not identified themselves gives up its own.
func (d *door) accept() {
	for range acceptBatch {
		s, from, err := d.p.net.accept()
		switch {
		case err == nil:
			d.welcome(s, from)
		case errors.Is(err, errNothing):
			return
		case d.dismiss():
			d.p.complaints.warn("tcp: accept: a connection without a session was closed", "why", err)
		default: // look again at the next tick
			d.p.complaints.warn("tcp: accept", "why", err)
			d.deaf = d.p.net.heed(false)
			d.p.setTick(true)
			return
		}
	}
}

// listenAgain ends deafness.
func (d *door) listenAgain() {
	if d.deaf {
		d.deaf = !d.p.net.heed(true)
	}
}

// welcome makes a lane of a connection. With too many, the oldest that has not
// identified itself is closed.
func (d *door) welcome(s socket, from address) {
	p := d.p
	p.dev.stats.accepted.Add(1)
	if d.guests >= p.dev.cfg.MaxConn+spareConn {
		p.dev.stats.crowded.Add(1)
		d.dismiss()
	}
	l := p.newLane(laneStranger, from.gid)
	l.guest = true
	d.guests++
	d.line.add(l)
	if err := p.wrap(l, s); err != nil {
		p.complaints.warn("tcp: accept", "why", err)
		p.closeLane(l)
		return
	}
	l.writable, l.readable = true, true
	switch {
	case d.usher != nil:
		d.vet(l, sockPair{near: from, far: p.self})
	case d.greets():
		d.greet(l, taken)
	}
	p.turns.awaken(l)
}

// dismiss closes the oldest connection that has not identified itself; false: there is
// none.
func (d *door) dismiss() bool {
	l := d.line.first
	if l == nil {
		return false
	}
	d.p.closeLane(l)
	return true
}

// leave forgets a connection that is closed.
func (d *door) leave(l *lane) {
	d.line.remove(l)
	d.guests--
}

// onPreamble handles the complete preamble of a connection.
func (d *door) onPreamble(l *lane, h *preamble, err error) {
	switch {
	case err != nil && !errors.Is(err, errVersion) || h.reply:
		d.p.dev.stats.strangers.Add(1)
		d.p.closeLane(l)
	case err != nil:
		d.p.complaints.warn("tcp: not the same release", "address", AddrOf(l.peer), "why", err)
		d.reply(l, &preamble{}, wrongVersion)
	default:
		d.reply(l, h, d.admitConn(l, h))
	}
}

// line is a list of lanes, the first of which came first.
type line struct {
	first, last *lane
	n           int
}

// inLine is a lane's place in a line.
type inLine struct {
	before, behind *lane
	is             bool
}

func (q *line) add(l *lane) {
	l.line = inLine{before: q.last, is: true}
	if q.last == nil {
		q.first = l
	} else {
		q.last.line.behind = l
	}
	q.last = l
	q.n++
}

// remove takes l out, if it is there.
func (q *line) remove(l *lane) {
	at := l.line
	if !at.is {
		return
	}
	if at.before == nil {
		q.first = at.behind
	} else {
		at.before.line.behind = at.behind
	}
	if at.behind == nil {
		q.last = at.before
	} else {
		at.behind.line.before = at.before
	}
	l.line = inLine{}
	q.n--
}
