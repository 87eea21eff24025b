package match

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/internal/testenv"
)

const all = ^uint64(0)

// TestStateMachine compares table and model over random calls with so few tags,
// masks and sources that most of them collide.
func TestStateMachine(t *testing.T) {
	kinds := rapid.SampledFrom([]Kind{Untagged, Tagged, Tagged, Tagged})
	tags := rapid.Uint64Range(0, 5)
	ignores := rapid.SampledFrom([]uint64{0, 0, 0, 1, 2, 3, 4, all - 1, all})
	senders := rapid.SampledFrom([]Source{0, 1, 2, NotAvail})
	sources := rapid.SampledFrom([]Source{AnySource, AnySource, 0, 1, 2, NotAvail})
	rapid.Check(t, func(rt *rapid.T) {
		h := newHarness(rt, NewSeeded(rapid.Uint64().Draw(rt, "seed")))
		h.many = true
		pickRecv := func() int32 {
			if len(h.recvs) == 0 {
				rt.Skip("no receive yet")
			}
			return rapid.Int32Range(0, int32(len(h.recvs)-1)).Draw(rt, "recv")
		}
		pickMsg := func() int32 {
			if len(h.msgs) == 0 {
				rt.Skip("no message yet")
			}
			return rapid.Int32Range(0, int32(len(h.msgs)-1)).Draw(rt, "msg")
		}
		add := func(rt *rapid.T) {
			h.addMsg(kinds.Draw(rt, "kind"), tags.Draw(rt, "tag"), senders.Draw(rt, "sender"))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"Post": func(rt *rapid.T) {
				h.post(kinds.Draw(rt, "kind"), tags.Draw(rt, "tag"), ignores.Draw(rt, "ignore"), sources.Draw(rt, "source"))
			},
			"Arrive": func(rt *rapid.T) {
				h.arrive(kinds.Draw(rt, "kind"), tags.Draw(rt, "tag"), senders.Draw(rt, "sender"))
			},
			"AddMsg":      add,
			"AddMsgAgain": add, // so that enough wait for an index
			"Find": func(rt *rapid.T) {
				h.find(kinds.Draw(rt, "kind"), tags.Draw(rt, "tag"), ignores.Draw(rt, "ignore"), sources.Draw(rt, "source"))
			},
			"RemoveRecv": func(*rapid.T) { h.removeRecv(pickRecv()) },
			"RemoveMsg":  func(*rapid.T) { h.removeMsg(pickMsg()) },
			"Rekey":      func(rt *rapid.T) { h.rekey(pickMsg(), senders.Draw(rt, "sender")) },
			"":           func(*rapid.T) { h.check() },
		})
	})
}

// mix is one phase of the long run.
type mix struct {
	tags    uint64
	ignores int // how many masks
	add     int // of 100 steps, so many add a message, the others are shared out
	post    int
	find    int
}

var mixes = []mix{
	{tags: 8, ignores: 3, add: 15, post: 30, find: 10},     // about balanced
	{tags: 64, ignores: 6, add: 40, post: 20, find: 10},    // messages pile up
	{tags: 8, ignores: 200, add: 5, post: 60, find: 5},     // receives beyond the classes
	{tags: 512, ignores: 40, add: 40, post: 10, find: 30},  // more masks than indexes
	{tags: 4, ignores: 1, add: 45, post: 45, find: 0},      // one class
	{tags: 1 << 20, ignores: 2, add: 45, post: 5, find: 1}, // indexes fall idle
	{tags: 3, ignores: 100, add: 1, post: 40, find: 10},
}

// maskOf returns the i-th ignore mask of a phase; the first ones ignore nothing,
// everything and the low bits.
func maskOf(i int) uint64 {
	switch i {
	case 0:
		return 0
	case 1:
		return all
	default:
		return uint64(i)*2 - 3
	}
}

func TestLongRun(t *testing.T) {
	steps := 1_000_000
	if testenv.Short() {
		steps = 50_000
	}
	rng := rand.New(rand.NewPCG(1, 2))
	h := newHarness(t, New())
	s := &h.table.spaces[Tagged]
	made, dropped, evicted, beyond := 0, 0, 0, 0
	classOf := map[uint64]uint64{}
	p := mixes[0]
	for i := range steps {
		if i%5000 == 0 {
			p = mixes[rng.IntN(len(mixes))]
		}
		indexed := s.indexed
		h.random(rng, p)
		if len(h.model.recvs) > 400 {
			h.removeRecv(h.model.recvs[rng.IntN(len(h.model.recvs))].Owner)
		}
		if len(h.model.msgs) > 400 {
			h.removeMsg(h.model.msgs[rng.IntN(len(h.model.msgs))].Owner)
		}
		made += bits.OnesCount64(s.indexed &^ indexed)
		dropped += bits.OnesCount64(indexed &^ s.indexed)
		if s.filed.rest != nil {
			beyond++
		}
		if i%500 == 0 {
			h.check()
			for _, c := range s.classes {
				if old, ok := classOf[c.bit]; ok && old != ^c.bits {
					evicted++
				}
				classOf[c.bit] = ^c.bits
			}
		}
	}
	h.check()
	// The run has been through everything that a table does on its own.
	require.Greater(t, made, steps/5000, "indexes made")
	require.Greater(t, dropped, steps/10_000, "indexes dropped")
	require.Greater(t, evicted, steps/10_000, "classes replaced")
	require.Greater(t, beyond, steps/1000, "steps with receives beyond the classes")
}

func (h *harness) random(rng *rand.Rand, p mix) {
	h.t.Helper()
	kind := Tagged
	if rng.IntN(8) == 0 {
		kind = Untagged
	}
	tag := rng.Uint64N(p.tags)
	ignore := maskOf(rng.IntN(p.ignores))
	sender := Source(rng.Uint64N(4))
	if sender == 3 {
		sender = NotAvail
	}
	source := AnySource
	if rng.IntN(3) == 0 {
		source = sender
	}
	switch n := rng.IntN(100); {
	case n < p.add:
		h.addMsg(kind, tag, sender)
	case n < p.add+p.post:
		h.post(kind, tag, ignore, source)
	case n < p.add+p.post+p.find:
		h.find(kind, tag, ignore, source)
	case n%8 == 0 && len(h.recvs) > 0:
		h.removeRecv(rng.Int32N(int32(len(h.recvs))))
	case n%8 == 1 && len(h.msgs) > 0:
		h.removeMsg(rng.Int32N(int32(len(h.msgs))))
	case n%8 == 2 && len(h.msgs) > 0:
		h.rekey(rng.Int32N(int32(len(h.msgs))), sender)
	default:
		h.arrive(kind, tag, sender)
	}
}

// TestSeedChangesNothing gives the same calls to tables of different seeds.
func TestSeedChangesNothing(t *testing.T) {
	trace := func(seed uint64) (got []int32) {
		table := NewSeeded(seed)
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range int32(20_000) {
			tag, src := rng.Uint64N(16), Source(rng.Uint64N(3))
			switch rng.IntN(3) {
			case 0:
				r := &Recv{Kind: Tagged, Tag: tag, Ignore: rng.Uint64N(100), Source: src, Owner: i}
				got = append(got, ownerOfMsg(table.Post(r)))
			case 1:
				table.AddMsg(&Msg{Kind: Tagged, Tag: tag, Source: src, Owner: i})
			default:
				got = append(got, ownerOfRecv(table.Arrive(Tagged, tag, src)))
			}
		}
		table.EachRecv(func(r *Recv) bool { got = append(got, r.Owner); return true })
		return got
	}
	want := trace(0)
	require.True(t, slices.ContainsFunc(want, func(o int32) bool { return o != none }))
	for _, seed := range []uint64{1, defaultSeed, all} {
		require.Equal(t, want, trace(seed))
	}
}

// model is the reference: two slices, searched from the oldest on.
type model struct {
	recvs []Recv
	msgs  []Msg
}

// accepts is the rule of matching, written from the manual and not from match.go.
func accepts(r *Recv, k Kind, tag uint64, src Source) bool {
	if r.Kind != k {
		return false
	}
	if k == Tagged && tag|r.Ignore != r.Tag|r.Ignore {
		return false
	}
	if r.Source == AnySource {
		return true
	}
	return r.Source == src && src != NotAvail
}

func (o *model) findMsg(r *Recv) int {
	return slices.IndexFunc(o.msgs, func(m Msg) bool { return accepts(r, m.Kind, m.Tag, m.Source) })
}

// Every method returns the Owner of what it took or found, or none.
const none int32 = -1

func (o *model) arrive(k Kind, tag uint64, src Source) int32 {
	i := slices.IndexFunc(o.recvs, func(r Recv) bool { return accepts(&r, k, tag, src) })
	if i < 0 {
		return none
	}
	owner := o.recvs[i].Owner
	if !o.recvs[i].Many {
		o.recvs = slices.Delete(o.recvs, i, i+1)
	}
	return owner
}

func (o *model) post(r Recv) int32 {
	i := o.findMsg(&r)
	if i < 0 {
		o.recvs = append(o.recvs, r)
		return none
	}
	owner := o.msgs[i].Owner
	o.msgs = slices.Delete(o.msgs, i, i+1)
	return owner
}

func (o *model) find(r Recv) int32 {
	if i := o.findMsg(&r); i >= 0 {
		return o.msgs[i].Owner
	}
	return none
}

func (o *model) removeRecv(owner int32) bool {
	n := len(o.recvs)
	o.recvs = slices.DeleteFunc(o.recvs, func(r Recv) bool { return r.Owner == owner })
	return len(o.recvs) < n
}

func (o *model) removeMsg(owner int32) bool {
	n := len(o.msgs)
	o.msgs = slices.DeleteFunc(o.msgs, func(m Msg) bool { return m.Owner == owner })
	return len(o.msgs) < n
}

func (o *model) rekey(owner int32, src Source) {
	for i := range o.msgs {
		if o.msgs[i].Owner == owner {
			o.msgs[i].Source = src
		}
	}
}
