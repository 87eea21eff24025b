package match

// link is the place of a message in a list.
type link struct {
	owner      *Msg
	stamp      uint64 // 0: in no list
	prev, next *link
}

// list holds messages by rising stamp.
type list struct {
	head, tail *link
	n          int
}

// push appends owner, whose link is l.
func (q *list) push(l *link, owner *Msg, stamp uint64) {
	l.owner, l.stamp, l.prev, l.next = owner, stamp, q.tail, nil
	if q.tail == nil {
		q.head = l
	} else {
		q.tail.next = l
	}
	q.tail = l
	q.n++
}

func (q *list) remove(l *link) {
	if l.prev == nil {
		q.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	*l = link{}
	q.n--
}

func (q *list) oldest() *Msg {
	if q.head == nil {
		return nil
	}
	return q.head.owner
}

func (q *list) after(m *Msg) *Msg {
	if m.order.next == nil {
		return nil
	}
	return m.order.next.owner
}

func (q *list) stampOf(m *Msg) uint64 { return m.order.stamp }
