package device

// A packet that was refused waits for its peer's back-off to end. It must not keep a place in
// the send queue meanwhile: packets to others need it. So it gives its place up, and an entry
// of the reserve takes the place in the pool.

// maxReserve is how many entries there may be for each place in the send queue, beside those
// that have one. Of more refused packets the rest keep their places.
const maxReserve = 16

// reserve is the entries beside those of Queue.pkes, in slabs of the queue's depth.
type reserve struct {
	slabs  [][]Pke
	parked int
}

// Park gives up the place of a packet that the device does not have.
func (q *Queue) Park(p *Pke) {
	r, depth := &q.reserve, len(q.pkes)
	if p.parked || p.out {
		return
	}
	if r.parked >= len(r.slabs)*depth {
		if len(r.slabs) == maxReserve {
			return
		}
		slab := make([]Pke, depth)
		r.slabs = append(r.slabs, slab)
		q.enter(slab, len(r.slabs)*depth)
	}
	p.parked = true
	r.parked++
	q.room++
}

// Parked reports whether the packet has no place in the send queue. It may be posted when
// there is room.
func (p *Pke) Parked() bool { return p.parked }

// unpark takes a place again.
func (q *Queue) unpark(p *Pke) {
	p.parked = false
	q.reserve.parked--
	q.room--
}

// enter puts entries into the pool, of which the first has the number base.
func (q *Queue) enter(slab []Pke, base int) {
	for i := len(slab) - 1; i >= 0; i-- {
		p := &slab[i]
		p.queue = q
		p.done.Pke, p.problem.Pke = p, p
		p.wr.ID = uint64(base + i)
		p.Next, q.free = q.free, p
	}
}

// entry is the entry of a number, nil if there is none.
func (q *Queue) entry(id uint64) *Pke {
	depth := uint64(len(q.pkes))
	if id < depth {
		return &q.pkes[id]
	}
	if slab := id/depth - 1; slab < uint64(len(q.reserve.slabs)) {
		return &q.reserve.slabs[slab][id%depth]
	}
	return nil
}

// each calls f for every entry until it returns false.
func (q *Queue) each(f func(*Pke) bool) {
	for i := range q.pkes {
		if !f(&q.pkes[i]) {
			return
		}
	}
	for _, slab := range q.reserve.slabs {
		for i := range slab {
			if !f(&slab[i]) {
				return
			}
		}
	}
}
