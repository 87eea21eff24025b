package match

// link is the place of a T in a list.
type link[T any] struct {
	owner      *T
	stamp      uint64 // 0: in no list
	prev, next *link[T]
}

// list holds Ts by rising stamp.
type list[T any] struct {
	head, tail *link[T]
	n          int
}

// push appends owner, whose link is l.
func (q *list[T]) push(l *link[T], owner *T, stamp uint64) {
	l.owner, l.stamp, l.prev, l.next = owner, stamp, q.tail, nil
	if q.tail == nil {
		q.head = l
	} else {
		q.tail.next = l
	}
	q.tail = l
	q.n++
}

func (q *list[T]) remove(l *link[T]) {
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
	*l = link[T]{}
	q.n--
}

// cursor walks a list that changes under it.
type cursor[T any] struct {
	list  *list[T]
	at    *link[T] // next to visit, nil at the end
	stamp uint64   // of at, when it was noted
}

func (q *list[T]) cursor() cursor[T] {
	c := cursor[T]{list: q}
	c.moveTo(q.head)
	return c
}

func (c *cursor[T]) moveTo(l *link[T]) {
	c.at = l
	if l != nil {
		c.stamp = l.stamp
	}
}

// settle finds the first link after done again if at has left its place.
func (c *cursor[T]) settle(done uint64) {
	if c.at == nil || c.at.stamp == c.stamp {
		return
	}
	l := c.list.head
	for l != nil && l.stamp <= done {
		l = l.next
	}
	c.moveTo(l)
}

// each calls f for the elements of a and b, by rising stamp up to last, until f
// returns false. f may add and remove.
func each[T any](a, b *list[T], last uint64, f func(*T) bool) {
	x, y := a.cursor(), b.cursor()
	for done := uint64(0); ; {
		x.settle(done)
		y.settle(done)
		c := &x
		if x.at == nil || y.at != nil && y.stamp < x.stamp {
			c = &y
		}
		if c.at == nil || c.stamp > last {
			return
		}
		done = c.stamp
		owner := c.at.owner
		c.moveTo(c.at.next)
		if !f(owner) {
			return
		}
	}
}
