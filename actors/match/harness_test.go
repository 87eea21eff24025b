package match

import (
	"fmt"
	"math/bits"
	"slices"
)

// tester is what a harness reports to: a testing.TB or a rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// harness does everything to a table and to the model, and compares.
type harness struct {
	t     tester
	table *Table
	model model
	recvs []*Recv // by Owner, whether in the table or not
	msgs  []*Msg
	steps int
	many  bool // every fifth receive takes many messages
}

func newHarness(t tester, table *Table) *harness { return &harness{t: t, table: table} }

func (h *harness) equal(what string, got, want any) {
	h.t.Helper()
	h.steps++
	if got != want {
		h.t.Fatalf("step %d: %s: got %v, want %v", h.steps, what, got, want)
	}
}

func ownerOfRecv(r *Recv) int32 {
	if r == nil {
		return none
	}
	return r.Owner
}

func ownerOfMsg(m *Msg) int32 {
	if m == nil {
		return none
	}
	return m.Owner
}

// spareRecv returns a receive that is in no table, an old one if there is.
func (h *harness) spareRecv() *Recv {
	if n := len(h.recvs); n > 0 {
		if r := h.recvs[h.steps%n]; r.stamp == 0 {
			return r
		}
	}
	r := &Recv{Owner: int32(len(h.recvs))}
	h.recvs = append(h.recvs, r)
	return r
}

func (h *harness) spareMsg() *Msg {
	if n := len(h.msgs); n > 0 {
		if m := h.msgs[h.steps%n]; m.in == nil {
			return m
		}
	}
	m := &Msg{Owner: int32(len(h.msgs))}
	h.msgs = append(h.msgs, m)
	return m
}

func (h *harness) post(k Kind, tag, ignore uint64, src Source) int32 {
	h.t.Helper()
	r := h.spareRecv()
	many := h.many && h.steps%5 == 0
	r.Kind, r.Many, r.Tag, r.Ignore, r.Source = k, many, tag, ignore, src
	want := h.model.post(Recv{Kind: k, Many: many, Tag: tag, Ignore: ignore, Source: src, Owner: r.Owner})
	got := ownerOfMsg(h.table.Post(r))
	h.equal(fmt.Sprintf("Post(%v, %#x, %#x, %#x)", k, tag, ignore, src), got, want)
	return got
}

func (h *harness) arrive(k Kind, tag uint64, src Source) int32 {
	h.t.Helper()
	want := h.model.arrive(k, tag, src)
	got := ownerOfRecv(h.table.Arrive(k, tag, src))
	h.equal(fmt.Sprintf("Arrive(%v, %#x, %#x)", k, tag, src), got, want)
	return got
}

func (h *harness) addMsg(k Kind, tag uint64, src Source) int32 {
	m := h.spareMsg()
	m.Kind, m.Tag, m.Source = k, tag, src
	h.table.AddMsg(m)
	h.model.msgs = append(h.model.msgs, Msg{Kind: k, Tag: tag, Source: src, Owner: m.Owner})
	h.steps++
	return m.Owner
}

func (h *harness) find(k Kind, tag, ignore uint64, src Source) int32 {
	h.t.Helper()
	want := h.model.find(Recv{Kind: k, Tag: tag, Ignore: ignore, Source: src})
	got := ownerOfMsg(h.table.Find(k, tag, ignore, src))
	h.equal(fmt.Sprintf("Find(%v, %#x, %#x, %#x)", k, tag, ignore, src), got, want)
	return got
}

func (h *harness) removeRecv(owner int32) {
	h.t.Helper()
	want := h.model.removeRecv(owner)
	h.equal(fmt.Sprintf("RemoveRecv(%d)", owner), h.table.RemoveRecv(h.recvs[owner]), want)
}

func (h *harness) removeMsg(owner int32) {
	h.t.Helper()
	want := h.model.removeMsg(owner)
	h.equal(fmt.Sprintf("RemoveMsg(%d)", owner), h.table.RemoveMsg(h.msgs[owner]), want)
}

func (h *harness) rekey(owner int32, src Source) {
	h.table.Rekey(h.msgs[owner], src)
	h.model.rekey(owner, src)
	h.steps++
}

// check compares everything that is in the table with the model, and the table
// with itself.
func (h *harness) check() {
	h.t.Helper()
	h.equal("Recvs", h.table.Recvs(), len(h.model.recvs))
	h.equal("Msgs", h.table.Msgs(), len(h.model.msgs))
	i := 0
	h.table.EachRecv(func(r *Recv) bool {
		h.equal("EachRecv", r.Owner, h.model.recvs[i].Owner)
		i++
		return true
	})
	h.equal("EachRecv's visits", i, len(h.model.recvs))
	i = 0
	h.table.EachMsg(func(m *Msg) bool {
		h.equal("EachMsg", m.Owner, h.model.msgs[i].Owner)
		h.equal("source", m.Source, h.model.msgs[i].Source)
		i++
		return true
	})
	h.equal("EachMsg's visits", i, len(h.model.msgs))
	if err := h.table.verify(); err != nil {
		h.t.Fatalf("step %d: %v", h.steps, err)
	}
}

// verify walks every structure of the table and reports what contradicts.
func (t *Table) verify() error {
	for k := range t.spaces {
		s := &t.spaces[k]
		if err := s.verifyRecvs(); err != nil {
			return err
		}
		for i, c := range s.classes {
			filed, err := c.msgs.verify(c)
			if err != nil {
				return fmt.Errorf("messages of class %d: %w", i, err)
			}
			if want := s.fileable(c); filed != want {
				return fmt.Errorf("class %d: %d messages filed, want %d", i, filed, want)
			}
		}
		if n := bits.OnesCount64(s.indexed); n > maxIndexes || len(s.classes) > maxClasses {
			return fmt.Errorf("%d indexes, %d classes", n, len(s.classes))
		}
	}
	return nil
}

// verifyRecvs checks that the filed receives are the oldest ones, and those that the
// cells and rings have.
func (s *space) verifyRecvs() error {
	filed, n := map[*Recv]bool{}, 0
	for r := s.recvs.oldest(); r != nil; r = s.recvs.after(r) {
		n++
		if r.in != s || r.next.prev != r || r.class == nil && (r.older != nil || r.newer != nil) {
			return fmt.Errorf("receive %d: stray", r.Owner)
		}
		if r.class != nil {
			if r.prev != &s.recvs.root && r.prev.class == nil {
				return fmt.Errorf("receive %d is filed, an older one is not", r.Owner)
			}
			filed[r] = true
		}
	}
	if n != s.recvs.n {
		return fmt.Errorf("%d receives in the queue, n is %d", n, s.recvs.n)
	}
	posted, counts := len(filed), map[*class]int{}
	ring := func(lead *Recv, c *class) error {
		stamp := uint64(0)
		for r := lead; ; r = r.newer {
			if !filed[r] || r.class != c || r.stamp <= stamp {
				return fmt.Errorf("receive %d: in two rings, or out of order", r.Owner)
			}
			delete(filed, r)
			stamp = r.stamp
			if r.newer == nil && r.older == nil && r == lead {
				return nil
			}
			if r.newer.older != r {
				return fmt.Errorf("receive %d: bad links", r.Owner)
			}
			if r.newer == lead {
				return nil
			}
		}
	}
	x, keys := &s.filed, 0
	for i := range x.chains {
		for at := &x.chains[i]; *at != nil; at = &(*at).chain {
			lead := *at
			keys++
			if x.lead(lead) != at {
				return fmt.Errorf("receive %d: its key is found elsewhere", lead.Owner)
			}
			if err := ring(lead, lead.class); err != nil {
				return err
			}
			counts[lead.class]++
		}
	}
	if 2*keys > len(x.chains) {
		return fmt.Errorf("%d leads in %d chains", keys, len(x.chains))
	}
	if x.rest != nil {
		if err := ring(x.rest, &s.rest); err != nil {
			return err
		}
		keys++
	}
	if len(filed) != 0 || keys != x.keys {
		return fmt.Errorf("%d of %d filed receives not found, %d leads, keys is %d", len(filed), posted, keys, x.keys)
	}
	live := map[*class]bool{}
	for c := s.live; c != nil; c = c.next {
		live[c] = true
	}
	for i, c := range s.classes {
		if live[c] != (c.keys > 0) || c.keys != counts[c] {
			return fmt.Errorf("class %d of %d keys: live is %t, keys is %d", i, counts[c], live[c], c.keys)
		}
	}
	return nil
}

// fileable counts the messages that belong into the index of c.
func (s *space) fileable(c *class) int {
	n := 0
	for l := s.msgs.head; l != nil && s.indexed&c.bit != 0; l = l.next {
		if l.owner.Source.known() || !c.directed() {
			n++
		}
	}
	return n
}

// verify checks links, order, buckets and keys of an index, and counts its nodes.
func (x *index[T]) verify(c *class) (nodes int, err error) {
	keys := 0
	for b := range x.buckets {
		for slot := &x.buckets[b]; *slot != nil; slot = &(*slot).chain {
			lead := *slot
			keys++
			if lead.slot != slot || x.bucket(lead.tag, lead.src) != &x.buckets[b] {
				return 0, fmt.Errorf("lead of key (%#x, %#x) in the wrong place", lead.tag, lead.src)
			}
			stamps := []uint64{lead.stamp}
			for n := lead.next; n != lead; n = n.next {
				if n.slot != nil || n.chain != nil || n.tag != lead.tag || n.src != lead.src {
					return 0, fmt.Errorf("ring of key (%#x, %#x): stray node", lead.tag, lead.src)
				}
				stamps = append(stamps, n.stamp)
			}
			for n, i := lead, 0; i < len(stamps); n, i = n.next, i+1 {
				if n.next.prev != n || n.in != c || n.owner == nil {
					return 0, fmt.Errorf("ring of key (%#x, %#x): bad links", lead.tag, lead.src)
				}
			}
			if !slices.IsSorted(stamps) {
				return 0, fmt.Errorf("ring of key (%#x, %#x): stamps %d", lead.tag, lead.src, stamps)
			}
			nodes += len(stamps)
		}
	}
	if keys != x.keys {
		return 0, fmt.Errorf("%d leads, keys is %d", keys, x.keys)
	}
	return nodes, nil
}
