package match

// maxClasses is how many classes a space has, one bit each in live and indexed.
const maxClasses = 64

// class holds the receives that have the same ignore mask and either all name a
// source or all take any, and an index of the messages for them.
type class struct {
	bits uint64 // of a tag that matter: ^ignore
	any  Source // AnySource, or 0 if it is directed
	salt salt   // makes the hash of its receives' keys
	next *class // of space.live
	keys int    // of its receives
	idle uint64 // the table's stamp when the last of them went, or when the class was made

	bit uint64 // its own in space.indexed, 0 in space.rest

	msgs  index[Msg] // of all messages of the space, if indexed
	asked uint64     // space.adds when msgs was last of use
}

// key is the key under which messages of (tag, src) are indexed.
func (c *class) key(tag uint64, src Source) (uint64, Source) { return tag & c.bits, src | c.any }

func (c *class) directed() bool { return c.any == 0 }

// is reports whether c is the class of a filter.
func (c *class) is(f filter) bool { return c.bits == ^f.ignore && c.directed() == f.directed() }

// space holds all receives and messages of one kind.
type space struct {
	table *Table

	recvs queue // the filed ones, if any, come first
	filed filed
	msgs  list   // by arrival
	adds  uint64 // messages ever added

	classes []*class
	last    *class // that lookup or open returned; nil: there is none
	live    *class // the first of those that have receives
	indexed uint64 // classes whose msgs is kept up
	rest    class  // of receives beyond maxClasses
}

// lookup returns the class of a filter, nil if there is none.
func (s *space) lookup(f filter) *class {
	if c := s.last; c != nil && c.is(f) {
		return c
	}
	for _, c := range s.classes {
		if c.is(f) {
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
		c = &class{bit: 1 << i, salt: newSalt(s.table.seed, uint64(i))}
		c.msgs.seed = s.table.seed
		s.classes = append(s.classes, c)
	} else {
		for _, d := range s.classes {
			if d.keys == 0 && s.indexed&d.bit == 0 && (c == nil || d.idle < c.idle) {
				c = d
			}
		}
		if c == nil {
			return nil
		}
	}
	c.bits, c.any, c.idle = ^f.ignore, 0, s.table.stamp
	if !f.directed() {
		c.any = AnySource
	}
	s.last = c
	return c
}
