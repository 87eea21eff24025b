package shard

const minRing = 256 // entries; a power of two

// ring is a growing FIFO of entries, used by the shard's owner alone.
type ring struct {
	buf  []entry // len is a power of two, or 0
	head uint64  // of the oldest
	n    uint64  // how many there are
}

func (r *ring) len() int { return int(r.n) }

func (r *ring) push(m *mailbox, msg any, l lane) {
	if r.n == uint64(len(r.buf)) {
		r.grow()
	}
	e := &r.buf[(r.head+r.n)&uint64(len(r.buf)-1)]
	e.m, e.msg, e.lane = m, msg, l
	m.bars += barPending
	r.n++
}

// pop takes the oldest entry. Precondition: the ring is not empty. It reads field
// by field: a hop pops what it has just pushed, and a wide load of several stores
// would have to wait until they have reached the cache.
func (r *ring) pop() (m *mailbox, msg any, l lane) {
	e := &r.buf[r.head&uint64(len(r.buf)-1)]
	m, msg, l = e.m, e.msg, e.lane
	e.m, e.msg = nil, nil
	m.bars -= barPending
	r.head++
	r.n--
	return m, msg, l
}

func (r *ring) grow() {
	buf := make([]entry, max(minRing, 2*len(r.buf)))
	for i := range r.n {
		buf[i] = r.buf[(r.head+i)&uint64(len(r.buf)-1)]
	}
	r.buf, r.head = buf, 0
}

// trim gives the memory of a burst back if the ring is empty and larger than keep.
func (r *ring) trim(keep int) {
	if r.len() == 0 && len(r.buf) > keep {
		*r = ring{}
	}
}

// count returns how many entries are for m.
func (r *ring) count(m *mailbox) (n int) {
	for i := range r.n {
		if r.buf[(r.head+i)&uint64(len(r.buf)-1)].m == m {
			n++
		}
	}
	return n
}
