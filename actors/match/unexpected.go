package match

import "math/bits"

const (
	maxIndexes = 16      // classes of a space that may have an index of messages
	walkSteps  = 8       // receives or messages looked at one by one before they are filed or indexed
	minIdle    = 1024    // arrivals for which an unused index is kept
	poolSlab   = 64      // entries that are allocated together
	keepPool   = 1 << 16 // entries kept when the last message has gone
)

// entry is the place of a message in one index.
type entry struct {
	node node[Msg]
	next *entry // of the same message; in the pool, of the pool
}

// pool holds entries that no message uses.
type pool struct {
	free *entry
	n    int
}

func (p *pool) get() *entry {
	if p.free == nil {
		slab := make([]entry, poolSlab)
		for i := range slab {
			p.put(&slab[i])
		}
	}
	e := p.free
	p.free, e.next = e.next, nil
	p.n--
	return e
}

func (p *pool) put(e *entry) {
	e.next = p.free
	p.free = e
	p.n++
}

// oldestMsg returns the oldest message that f accepts, or nil. c is the class of
// f or nil.
func (s *space) oldestMsg(f filter, c *class) *Msg {
	if c == nil || s.indexed&c.bit == 0 {
		steps := 0
		for l := s.msgs.head; l != nil; l = l.next {
			if f.matches(l.owner.Tag, l.owner.Source) {
				return l.owner
			}
			// The walk is long. An index costs as much as walking to the end a few
			// times; if there can be none, walk on.
			if steps++; steps == walkSteps {
				if c = s.makeIndex(f, c); c != nil && s.indexed&c.bit != 0 {
					break
				}
			}
		}
		if c == nil || s.indexed&c.bit == 0 {
			return nil
		}
	}
	c.asked = s.adds
	n := c.msgs.first(c.key(f.tag, f.src))
	if n == nil {
		return nil
	}
	return n.owner
}

// makeIndex files all messages for the class of f and returns the class, which
// c is unless it is nil. It does nothing if there are too many indexes.
func (s *space) makeIndex(f filter, c *class) *class {
	if bits.OnesCount64(s.indexed) == maxIndexes {
		return c
	}
	if c == nil {
		if c = s.open(f); c == nil {
			return nil
		}
	}
	s.indexed |= c.bit
	for l := s.msgs.head; l != nil; l = l.next {
		s.file(l.owner, c)
	}
	return c
}

// dropIndex undoes makeIndex.
func (s *space) dropIndex(c *class) {
	for l := s.msgs.head; l != nil; l = l.next {
		for at := &l.owner.entries; *at != nil; at = &(*at).next {
			if e := *at; e.node.in == c {
				*at = e.next
				s.release(l.owner, e)
				break
			}
		}
	}
	c.msgs = index[Msg]{seed: s.table.seed}
	s.indexed &^= c.bit
}

// file adds m to the index of c, if receives of c could name its source.
func (s *space) file(m *Msg, c *class) {
	if c.directed() && !m.Source.known() {
		return
	}
	e := &m.own
	if e.node.in != nil {
		e = s.table.pool.get()
	}
	e.next, m.entries = m.entries, e
	n := &e.node
	n.owner, n.in, n.stamp = m, c, m.order.stamp
	n.tag, n.src = c.key(m.Tag, m.Source)
	c.msgs.insert(n)
}

// release clears an entry of m that is in no index and not in m.entries any more.
func (s *space) release(m *Msg, e *entry) {
	*e = entry{}
	if e != &m.own {
		s.table.pool.put(e)
	}
}

// unfile takes m out of the indexes of directed classes, or of all.
func (s *space) unfile(m *Msg, all bool) {
	for at := &m.entries; *at != nil; {
		e := *at
		c := e.node.in
		if !all && !c.directed() {
			at = &e.next
			continue
		}
		*at = e.next
		c.msgs.remove(&e.node)
		s.release(m, e)
	}
}

// addMsg appends m. It drops an index that went unused while twice as many messages
// arrived as it holds: making it again costs no more than maintaining it did.
func (s *space) addMsg(m *Msg) {
	m.in = s
	s.msgs.push(&m.order, m, s.table.tick())
	s.adds++
	for indexed := s.indexed; indexed != 0; indexed &= indexed - 1 {
		c := s.classes[bits.TrailingZeros64(indexed)]
		if s.adds-c.asked > uint64(max(minIdle, 2*s.msgs.n)) {
			s.dropIndex(c)
			continue
		}
		s.file(m, c)
	}
}

func (s *space) removeMsg(m *Msg) {
	s.unfile(m, true)
	s.msgs.remove(&m.order)
	m.in = nil
	if t := s.table; t.pool.n > keepPool && t.Msgs() == 0 {
		t.pool = pool{}
	}
}

func (s *space) rekey(m *Msg, src Source) {
	s.unfile(m, false)
	m.Source = src
	for indexed := s.indexed; indexed != 0; indexed &= indexed - 1 {
		if c := s.classes[bits.TrailingZeros64(indexed)]; c.directed() {
			s.file(m, c)
		}
	}
}

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
