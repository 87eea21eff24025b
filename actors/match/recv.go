package match

import "math/bits"

// Posted receives: the queue of all, in order of posting, and the hash table of the filed ones.
// arriveNext, arriveFiled and arriveLast are the ways of Table.Arrive beyond the first receive.

// arriveNext is Arrive of a message that the oldest receive does not take, when none is
// filed.
func (s *space) arriveNext(tag uint64, src Source) *Recv {
	r := s.recvs.root.next
	for steps := 1; ; steps++ {
		if r = r.next; r == &s.recvs.root {
			return nil
		}
		if steps == walkSteps {
			s.fileRecvs(s.recvs.root.next)
			return s.arriveFiled(tag, src)
		}
		if r.takes(tag, src) {
			if !r.Many {
				s.recvs.remove(r)
			}
			return r
		}
	}
}

// arriveFiled is Arrive when receives are filed, as the oldest then are.
func (s *space) arriveFiled(tag uint64, src Source) *Recv {
	var best *Recv
	var lead **Recv
	for c := s.live; c != nil; c = c.next {
		source := src | c.any
		for at := s.filed.chain(c, tag, source); *at != nil; at = &(*at).chain {
			if r := *at; c.has(r, tag, source) {
				if best == nil || r.stamp < best.stamp {
					best, lead = r, at
				}
				break
			}
		}
	}
	if s.filed.rest != nil {
		if r := s.filed.rest.scan(best, tag, src); r != best {
			best, lead = r, &s.filed.rest
		}
	}
	if best == nil {
		return s.arriveLast(tag, src)
	}
	if best.Many {
		return best
	}
	if best.newer != nil {
		best.dropOne(lead)
	} else {
		c := best.class
		s.filed.drop(best, lead)
		if c.keys == 0 {
			s.retire(c)
		}
	}
	s.recvs.remove(best)
	return best
}

// arriveLast is Arrive of a message that no filed receive takes. It walks over the others,
// or files them if they are many.
func (s *space) arriveLast(tag uint64, src Source) *Recv {
	var best *Recv
	r := s.recvs.root.prev
	for steps := 0; r.class == nil; r = r.prev {
		if steps++; steps > walkSteps {
			for r.prev.class == nil {
				r = r.prev
			}
			s.fileRecvs(r)
			return s.arriveFiled(tag, src)
		}
		if r.takes(tag, src) {
			best = r
		}
	}
	if best != nil && !best.Many {
		s.recvs.remove(best)
	}
	return best
}

// scan returns the oldest receive of the ring that r leads that takes the message, unless best is
// older.
func (r *Recv) scan(best *Recv, tag uint64, src Source) *Recv {
	for x := r; best == nil || x.stamp < best.stamp; {
		if x.takes(tag, src) {
			return x
		}
		if x = x.newer; x == nil || x == r {
			break
		}
	}
	return best
}

// fileRecvs files the receives from r on. Those before it are filed.
func (s *space) fileRecvs(r *Recv) {
	if s.filed.chains == nil {
		s.filed.grow()
	}
	if s.last == nil {
		s.classOf(r)
	}
each:
	for ; r != &s.recvs.root; r = r.next {
		c := s.last
		if c.bits != ^r.ignored() || c.directed() != r.Source.known() {
			if c = s.classOf(r); c == nil {
				s.filed.fileRest(&s.rest, r)
				continue
			}
		}
		first := s.filed.chain(c, r.Tag, r.Source)
		for lead := *first; lead != nil; lead = lead.chain {
			if c.has(lead, r.Tag, r.Source) {
				r.class = c
				lead.joinRing(r)
				continue each
			}
		}
		if c.keys == 0 {
			c.next, s.live = s.live, c
		}
		c.keys++
		s.filed.keys++
		r.class, r.chain, *first = c, *first, r
		if 2*s.filed.keys > len(s.filed.chains) {
			s.filed.grow()
		}
	}
}

// classOf returns the class of r, or nil if there can be no more. One that takes
// nothing, as its source is NotAvail, is filed with those of any source: no message has its key.
func (s *space) classOf(r *Recv) *class {
	f := r.filter()
	if !f.src.known() {
		f.src = AnySource
	}
	if c := s.lookup(f); c != nil {
		return c
	}
	return s.open(f)
}

// removeRecv takes r out, filed or not.
func (s *space) removeRecv(r *Recv) {
	switch c := r.class; {
	case c == nil:
	case r.newer != nil:
		r.dropOne(s.filed.lead(r))
	default:
		if s.filed.drop(r, s.filed.lead(r)); c.keys == 0 {
			s.retire(c)
		}
	}
	s.recvs.remove(r)
}

// retire takes c, which has no receives any more, out of the live classes.
func (s *space) retire(c *class) {
	c.idle = s.table.stamp
	for at := &s.live; *at != nil; at = &(*at).next {
		if *at == c {
			*at, c.next = c.next, nil
			break
		}
	}
	if s.filed.keys == 0 {
		s.filed.shrink()
	}
}

const (
	minChains  = 64
	keepChains = 1 << 18 // a table that ran empty frees more
)

// filed finds receives by class and key. It is a hash table; the receives of a key form a
// ring, which the oldest leads. It is kept so empty that most chains have one lead, since a
// look at another one costs a cache miss when receives are many.
type filed struct {
	chains []*Recv // leads; a power of two, or none
	keys   int     // leads, in chains half as many as those at most, and of the rest
	rest   *Recv   // leads the receives of classes beyond maxClasses
}

// salt makes the hash of a class of its own.
type salt struct {
	tag uint64
	src Source
}

// newSalt makes the i-th salt. The sources passed to hash are not 0, since the tag of a salt
// must not be: all keys of untagged receives would be alike.
func newSalt(seed, i uint64) salt {
	return salt{tag: hash(seed, i, 1), src: Source(hash(seed, i, 2))}
}

// sum is the hash of a key of the class. The halves of the product alone do not spread
// multiples of some powers of two under every salt.
func (c *class) sum(tag uint64, source Source) uint64 {
	hi, lo := bits.Mul64(tag&c.bits^c.salt.tag, uint64(source^c.salt.src))
	sum := hi ^ lo
	return sum ^ sum>>32
}

// chain returns the start of the chain that has a key, if any has.
func (x *filed) chain(c *class, tag uint64, source Source) **Recv {
	return &x.chains[c.sum(tag, source)&uint64(len(x.chains)-1)]
}

// has reports whether r is a receive of c that has the key.
func (c *class) has(r *Recv, tag uint64, source Source) bool {
	return r.class == c && (r.Tag^tag)&c.bits == 0 && r.Source == source
}

// lead returns the pointer to the lead of r's key.
func (x *filed) lead(r *Recv) **Recv {
	c := r.class
	if c.bit == 0 {
		return &x.rest
	}
	at := x.chain(c, r.Tag, r.Source)
	for !c.has(*at, r.Tag, r.Source) {
		at = &(*at).chain
	}
	return at
}

// fileRest files r, for which there is no class.
func (x *filed) fileRest(rest *class, r *Recv) {
	r.class = rest
	if x.rest != nil {
		x.rest.joinRing(r)
		return
	}
	x.rest = r
	rest.keys++
	x.keys++
}

// drop takes out r, the only one of its key. lead points to it.
func (x *filed) drop(r *Recv, lead **Recv) {
	r.class.keys--
	x.keys--
	*lead, r.class, r.chain = r.chain, nil, nil
}

// dropOne takes out r, one of several of its key. lead points to the lead.
func (r *Recv) dropOne(lead **Recv) {
	if *lead == r {
		*lead, r.newer.chain = r.newer, r.chain
	}
	r.leaveRing()
	r.class, r.chain = nil, nil
}

// shrink releases what a flood left behind.
func (x *filed) shrink() {
	if len(x.chains) > keepChains {
		x.chains = nil
	}
}

// grow makes more chains.
func (x *filed) grow() {
	old := x.chains
	x.chains = make([]*Recv, max(minChains, 2*len(old)))
	for _, r := range old {
		for r != nil {
			next := r.chain
			at := x.chain(r.class, r.Tag, r.Source)
			r.chain, *at = *at, r
			r = next
		}
	}
}

// joinRing appends x to the ring that r leads.
func (r *Recv) joinRing(x *Recv) {
	last := r.older
	if last == nil {
		last = r
	}
	x.older, x.newer = last, r
	last.newer, r.older = x, x
}

// leaveRing takes r out of its ring.
func (r *Recv) leaveRing() {
	a, b := r.older, r.newer
	if a == b { // one is left, without a ring
		a.older, a.newer = nil, nil
	} else {
		a.newer, b.older = b, a
	}
	r.older, r.newer = nil, nil
}

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
