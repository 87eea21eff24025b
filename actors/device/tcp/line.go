package tcp

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
