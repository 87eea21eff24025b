package match

// queue holds receives by rising stamp, in a ring with root.
type queue struct {
	root Recv
	n    int
}

func (q *queue) init() {
	q.root.prev, q.root.next = &q.root, &q.root
}

func (q *queue) push(r *Recv, s *space, stamp uint64) {
	last := q.root.prev
	r.stamp = stamp
	q.n++
	r.in, r.prev, r.next, last.next, q.root.prev = s, last, &q.root, r, r
}

func (q *queue) remove(r *Recv) {
	a, b := r.prev, r.next
	r.stamp = 0
	q.n--
	a.next, b.prev, r.prev, r.next, r.in = b, a, nil, nil, nil
}

func (q *queue) oldest() *Recv { return q.after(&q.root) }

func (q *queue) after(r *Recv) *Recv {
	if r.next == &q.root {
		return nil
	}
	return r.next
}

func (q *queue) stampOf(r *Recv) uint64 { return r.stamp }
