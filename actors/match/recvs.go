package match

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
			s.unlive(c)
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

// scan returns the oldest receive of the lead's ring that takes the message, unless best is older.
func (lead *Recv) scan(best *Recv, tag uint64, src Source) *Recv {
	for r := lead; best == nil || r.stamp < best.stamp; {
		if r.takes(tag, src) {
			return r
		}
		if r = r.newer; r == nil || r == lead {
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
				s.filed.keepRest(&s.rest, r)
				continue
			}
		}
		first := s.filed.chain(c, r.Tag, r.Source)
		for lead := *first; lead != nil; lead = lead.chain {
			if c.has(lead, r.Tag, r.Source) {
				r.class = c
				lead.join(r)
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
			s.unlive(c)
		}
	}
	s.recvs.remove(r)
}

// unlive takes c, which has no receives any more, out of the live classes.
func (s *space) unlive(c *class) {
	c.idle = s.table.stamp
	for at := &s.live; *at != nil; at = &(*at).next {
		if *at == c {
			*at, c.next = c.next, nil
			break
		}
	}
	if s.filed.keys == 0 {
		s.filed.emptied()
	}
}
