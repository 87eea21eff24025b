package tcp

// A connection is checked this many times within Config.Timeout. Ticks are counted, not
// timed: a process that was stopped, or could not run, does not take that for the
// silence of others.
const (
	ticks     = 8
	pingAfter = 2         // ticks of silence
	lostAfter = ticks - 1 // one may have begun just before the silence
)

// onTick checks all connections.
func (p *port) onTick() {
	p.door.listenAgain()
	n := 0
	for i := range p.conns {
		if l := p.conns[i].l; l != nil {
			n++
			l.onTick()
		}
	}
	for at, r := range p.remotes {
		if r.dialed != nil || r.accepted != nil {
			continue
		}
		if r.idle++; r.idle > 2*ticks {
			r.forgotten = true
			delete(p.remotes, at)
		}
	}
	if n == 0 && len(p.remotes) == 0 && !p.door.deaf {
		p.setTick(false)
	}
}

func (l *lane) onTick() {
	p := l.p
	if l.state != laneUp {
		if l.age++; l.age > lostAfter {
			p.broken(l, errSilent)
		}
		return
	}
	if l.heard || l.progressed() {
		l.heard, l.pinged, l.silent = false, false, 0
		return
	}
	// Silence does not matter while no answer is awaited.
	if l.no != 0 && l.under == 0 && !l.s.leaving {
		l.silent, l.pinged = 0, false
		return
	}
	l.silent++
	switch {
	case l.silent >= lostAfter:
		p.broken(l, errSilent)
	case l.silent >= pingAfter && !l.pinged:
		l.pinged = true
		l.answer(&frame{kind: kindPing, token: l.s.num})
	}
}

// progressed reports whether the other host has acknowledged bytes since the last tick, but
// not all: a long transfer over a slow path delays a ping. That a ping itself was
// acknowledged says nothing about the process that should answer.
func (l *lane) progressed() bool {
	left := l.st.unacked()
	acked := l.sent - uint64(left)
	more := acked > l.acked
	l.acked = acked
	return more && left+l.out.size > 0
}
