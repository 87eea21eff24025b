package match

import "math/bits"

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

// keepRest files r, for which there is no class.
func (x *filed) keepRest(rest *class, r *Recv) {
	r.class = rest
	if x.rest != nil {
		x.rest.join(r)
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
	r.leave()
	r.class, r.chain = nil, nil
}

// emptied releases what a flood left behind.
func (x *filed) emptied() {
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

// join appends r to the ring of the lead.
func (lead *Recv) join(r *Recv) {
	last := lead.older
	if last == nil {
		last = lead
	}
	r.older, r.newer = last, lead
	last.newer, lead.older = r, r
}

// leave takes r out of its ring.
func (r *Recv) leave() {
	a, b := r.older, r.newer
	if a == b { // one is left, without a ring
		a.older, a.newer = nil, nil
	} else {
		a.newer, b.older = b, a
	}
	r.older, r.newer = nil, nil
}
