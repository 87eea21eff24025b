package tcp

// progress moves bytes: pending output, and if it is time for a check of the
// sockets, input.
func (p *port) progress() {
	if len(p.turns.owing) > 0 {
		if p.turns.polls++; p.turns.polls > owedPolls {
			p.turns.pay()
		}
	}
	if len(p.turns.dirty) > 0 {
		p.turns.clean()
	}
	if p.skip > 0 {
		if p.skip--; len(p.turns.ready) == 0 {
			return
		}
	}
	p.net.look()
	if len(p.turns.ready) > 0 {
		p.idle, p.skip = 0, 0
		p.turns.readAll()
	} else {
		p.idle = min(p.idle+1, maxSkip)
		if p.skip = p.idle; p.reqs.under > 0 {
			p.skip = min(p.skip, busySkip)
		}
	}
	if p.ticked { // what arrived before counts as heard
		p.ticked = false
		p.onTick()
	}
}

// turns are the lanes that have something to do.
type turns struct {
	dirty []*lane // with output that nothing else makes them write
	ready []*lane // with input, according to the network, or the budget was used up
	spare []*lane // the second buffer of dirty, while one is iterated

	owing []*lane // with statuses that may wait
	polls int     // since there are any
}

const (
	// maxOwed is how many statuses of a lane wait. A sender has far more packets under way
	// before it must wait for one.
	maxOwed = 16
	// owedPolls is how many polls they wait for something to leave with: about as long
	// as an application takes to answer at once, and less than a system call.
	owedPolls = 8
)

// soil makes l write its output at the end of the turn.
func (t *turns) soil(l *lane) {
	if !l.dirty && l.writable {
		l.dirty = true
		t.dirty = append(t.dirty, l)
	}
}

// owe makes l write a status that was added to its output within owedPolls polls.
func (t *turns) owe(l *lane) {
	switch l.owes++; {
	case l.owes >= maxOwed:
		t.soil(l)
	case !l.owing:
		l.owing = true
		t.owing = append(t.owing, l)
	}
}

// pay has all that is owed written.
func (t *turns) pay() {
	for i, l := range t.owing {
		t.owing[i] = nil
		l.owing = false
		if l.owes > 0 && l.state == laneUp {
			t.soil(l)
		}
	}
	t.owing, t.polls = t.owing[:0], 0
}

// clean writes pending output.
func (t *turns) clean() {
	list := t.dirty
	t.dirty, t.spare = t.spare[:0], nil
	for i, l := range list {
		list[i] = nil
		l.dirty = false
		l.write()
	}
	t.spare = list[:0]
}

// awaken lets l be read.
func (t *turns) awaken(l *lane) {
	if !l.ready {
		l.ready = true
		t.ready = append(t.ready, l)
	}
}

// readAll reads from ready lanes. Lanes that are not done stay ready.
func (t *turns) readAll() {
	n := len(t.ready)
	for i := range n {
		l := t.ready[i]
		l.ready = false
		if l.state != laneClosed {
			l.read()
		}
	}
	k := copy(t.ready, t.ready[n:])
	clear(t.ready[k:])
	t.ready = t.ready[:k]
}
