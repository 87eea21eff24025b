package match

// defaultSeed is the seed of New, the fractional digits of pi.
const defaultSeed = 0x243f6a8885a308d3

// Table holds the posted receives and the unexpected messages of one endpoint. It
// is made by [New] or [NewSeeded] and used by one goroutine at a time.
type Table struct {
	spaces [numKinds]space
	stamp  uint64 // of the newest entry; postings and arrivals share one order
	pool   pool
	seed   uint64
}

// New returns an empty table.
func New() *Table { return NewSeeded(defaultSeed) }

// NewSeeded is New with a seed for the hash of tags, which changes no result. Peers
// that cannot guess the seed cannot choose tags with equal hashes.
func NewSeeded(seed uint64) *Table {
	t := &Table{seed: seed}
	for k := range t.spaces {
		t.spaces[k].table = t
		t.spaces[k].recvs.init()
	}
	return t
}

func (t *Table) space(k Kind) *space {
	if k == Untagged {
		return &t.spaces[Untagged]
	}
	return &t.spaces[Tagged]
}

func (t *Table) tick() uint64 {
	t.stamp++
	return t.stamp
}

// Arrive removes and returns the oldest posted receive that takes a message of this
// kind, tag and sender. It returns nil if there is none; the message is then
// unexpected, and the caller hands it to AddMsg. A receive of Many messages stays in
// its place until the caller removes it.
func (t *Table) Arrive(k Kind, tag uint64, src Source) *Recv {
	s := t.space(k)
	if s.recvs.n == 0 {
		return nil
	}
	r := s.recvs.root.next
	switch {
	case r.class != nil:
		return s.arriveFiled(tag, src)
	case !r.takes(tag, src):
		return s.arriveNext(tag, src)
	case !r.Many:
		s.recvs.remove(r)
	}
	return r
}

// AddMsg appends an unexpected message. A message that is already in a table is
// left where it is.
func (t *Table) AddMsg(m *Msg) {
	if m.in == nil {
		t.space(m.Kind).addMsg(m)
	}
}

// Post removes and returns the oldest unexpected message that r takes. If there is
// none it returns nil, and r is the newest posted receive. A receive that is
// already in a table is left where it is. One of Many messages is posted again until
// there is none, or until it takes no more.
func (t *Table) Post(r *Recv) *Msg {
	if r.stamp != 0 {
		return nil
	}
	s := t.space(r.Kind)
	if s.msgs.n != 0 {
		f := r.filter()
		if m := s.oldestMsg(f, s.lookup(f)); m != nil {
			s.removeMsg(m)
			return m
		}
	}
	t.stamp++
	s.recvs.push(r, s, t.stamp)
	return nil
}

// Find returns the oldest unexpected message that a receive with these arguments
// would take, or nil. The message stays (FI_PEEK); RemoveMsg claims or discards it.
func (t *Table) Find(k Kind, tag, ignore uint64, src Source) *Msg {
	s := t.space(k)
	if s.msgs.n == 0 {
		return nil
	}
	f := newFilter(k, tag, ignore, src)
	return s.oldestMsg(f, s.lookup(f))
}

// RemoveRecv takes a posted receive out. It returns false if r isn't in the table,
// as after a match.
func (t *Table) RemoveRecv(r *Recv) bool {
	if r.stamp == 0 || r.in.table != t {
		return false
	}
	r.in.removeRecv(r)
	return true
}

// RemoveMsg takes an unexpected message out. It returns false if m isn't in the
// table, as after a match.
func (t *Table) RemoveMsg(m *Msg) bool {
	if m.in == nil || m.in.table != t {
		return false
	}
	m.in.removeMsg(m)
	return true
}

// Rekey changes the source of an unexpected message: its sender was inserted into
// the address vector, or removed from it. The message keeps its place in the order
// of arrival. Nothing is matched, so a caller offers the messages of a sender that
// became known, oldest first, to the directed receives that wait for it:
//
//	t.Rekey(m, src)
//	if r := t.Arrive(m.Kind, m.Tag, src); r != nil {
//		t.RemoveMsg(m)
//	}
//
// A message that isn't in the table is left alone.
func (t *Table) Rekey(m *Msg, src Source) {
	if m.in != nil && m.in.table == t {
		m.in.rekey(m, src)
	}
}

// Recvs returns the number of posted receives.
func (t *Table) Recvs() int { return t.spaces[Untagged].recvs.n + t.spaces[Tagged].recvs.n }

// Msgs returns the number of unexpected messages.
func (t *Table) Msgs() int { return t.spaces[Untagged].msgs.n + t.spaces[Tagged].msgs.n }

// EachRecv calls f for the posted receives of both kinds, oldest first, until f
// returns false. f may use the table; receives that it posts are not visited.
func (t *Table) EachRecv(f func(*Recv) bool) {
	each[Recv](&t.spaces[Untagged].recvs, &t.spaces[Tagged].recvs, t.stamp, f)
}

// EachMsg calls f for the unexpected messages of both kinds, oldest first, until f
// returns false. f may use the table; messages that it adds are not visited.
func (t *Table) EachMsg(f func(*Msg) bool) {
	each[Msg](&t.spaces[Untagged].msgs, &t.spaces[Tagged].msgs, t.stamp, f)
}

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
