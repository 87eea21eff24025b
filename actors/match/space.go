package match

import "math/bits"

// maxClasses is how many classes a space has, one bit each in live and indexed.
const maxClasses = 64

// class holds the receives that have the same ignore mask and either all name a
// source or all take any, and an index of the messages for them.
type class struct {
	ignore   uint64
	directed bool
	bit      uint64 // its own in space.live and space.indexed

	recvs  index[Recv]
	posted uint64 // stamp of the last receive, or of the class's creation

	msgs  index[Msg] // of all messages of the space, if indexed
	asked uint64     // space.adds when msgs was last of use
}

// key is the key under which receives of the class that may take (tag, src) are
// filed.
func (c *class) key(tag uint64, src Source) (uint64, Source) {
	if !c.directed {
		src = AnySource
	}
	return tag &^ c.ignore, src
}

// space holds all receives and messages of one kind.
type space struct {
	table *Table

	recvs list[Recv] // by posting
	filed bool       // the receives are in their classes, too
	msgs  list[Msg]  // by arrival
	adds  uint64     // messages ever added

	classes []*class
	last    *class // that lookup returned
	live    uint64 // classes that have receives
	indexed uint64 // classes whose msgs is kept up
	rest    class  // receives of classes beyond maxClasses, all under one key
}

// lookup returns the class of a filter, nil if there is none.
func (s *space) lookup(f filter) *class {
	if c := s.last; c != nil && c.ignore == f.ignore && c.directed == f.directed() {
		return c
	}
	for _, c := range s.classes {
		if c.ignore == f.ignore && c.directed == f.directed() {
			s.last = c
			return c
		}
	}
	return nil
}

// open makes the class of a filter, if necessary in place of the class that has
// been without receives the longest and has no index. It returns nil if all are in
// use.
func (s *space) open(f filter) *class {
	var c *class
	if i := len(s.classes); i < maxClasses {
		c = &class{bit: 1 << i}
		c.recvs.seed, c.msgs.seed = s.table.seed, s.table.seed
		s.classes = append(s.classes, c)
	} else {
		for idle := ^(s.live | s.indexed); idle != 0; idle &= idle - 1 {
			d := s.classes[bits.TrailingZeros64(idle)]
			if c == nil || d.posted < c.posted {
				c = d
			}
		}
		if c == nil {
			return nil
		}
	}
	c.ignore, c.directed, c.posted = f.ignore, f.directed(), s.table.stamp
	return c
}

// oldestRecv returns the oldest receive that matches, or nil.
func (s *space) oldestRecv(tag uint64, src Source) *Recv {
	if s.filed {
		return s.oldestFiled(tag, src)
	}
	steps := 0
	for l := s.recvs.head; l != nil; l = l.next {
		if l.owner.takes(tag, src) {
			return l.owner
		}
		if steps++; steps == walkSteps && l.next != nil {
			s.fileRecvs()
			return s.oldestFiled(tag, src)
		}
	}
	return nil
}

// oldestFiled is oldestRecv of receives that are filed.
func (s *space) oldestFiled(tag uint64, src Source) *Recv {
	var best *node[Recv]
	for live := s.live; live != 0; live &= live - 1 {
		c := s.classes[bits.TrailingZeros64(live)]
		if c.directed && !src.known() {
			continue
		}
		if n := c.recvs.first(c.key(tag, src)); n != nil && (best == nil || n.stamp < best.stamp) {
			best = n
		}
	}
	if s.rest.recvs.keys != 0 {
		best = s.scanRest(best, tag, src)
	}
	if best == nil {
		return nil
	}
	return best.owner
}

// scanRest returns the oldest receive outside the classes that matches, unless
// best is older.
func (s *space) scanRest(best *node[Recv], tag uint64, src Source) *node[Recv] {
	lead := s.rest.recvs.first(0, AnySource)
	for n := lead; best == nil || n.stamp < best.stamp; {
		if n.owner.takes(tag, src) {
			return n
		}
		if n = n.next; n == lead {
			break
		}
	}
	return best
}

// fileRecvs files all receives in their classes.
func (s *space) fileRecvs() {
	s.filed = true
	for l := s.recvs.head; l != nil; l = l.next {
		s.fileRecv(l.owner)
	}
}

// fileRecv files r, which is in the list.
func (s *space) fileRecv(r *Recv) {
	f := r.filter()
	c := s.lookup(f)
	if c == nil {
		c = s.open(f)
	}
	n := &r.entry
	n.owner, n.stamp = r, r.order.stamp
	if c == nil {
		c, n.tag, n.src = &s.rest, 0, AnySource
	} else {
		n.tag, n.src = c.key(f.tag, f.src)
		c.posted = n.stamp
		s.live |= c.bit
	}
	n.in = c
	c.recvs.insert(n)
}

func (s *space) removeRecv(r *Recv) {
	if c := r.entry.in; c != nil {
		if c.recvs.remove(&r.entry); c.recvs.keys == 0 {
			s.live &^= c.bit
		}
		s.filed = s.recvs.n > 1
	}
	s.recvs.remove(&r.order)
	r.in = nil
}
