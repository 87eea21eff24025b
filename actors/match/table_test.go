package match

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArriveTakesTheOldestThatMatches(t *testing.T) {
	type posted = Recv
	for _, tc := range []struct {
		name  string
		recvs []posted
		kind  Kind
		tag   uint64
		src   Source
		want  int32 // place in recvs
	}{
		{
			name: "exact before wildcard", kind: Tagged, tag: 5, want: 0,
			recvs: []posted{{Kind: Tagged, Tag: 5, Source: AnySource}, {Kind: Tagged, Ignore: all, Source: AnySource}},
		},
		{
			name: "wildcard before exact", kind: Tagged, tag: 5, want: 0,
			recvs: []posted{{Kind: Tagged, Ignore: all, Source: AnySource}, {Kind: Tagged, Tag: 5, Source: AnySource}},
		},
		{
			name: "two overlapping masks", kind: Tagged, tag: 0x12, want: 1,
			recvs: []posted{
				{Kind: Tagged, Tag: 0x20, Ignore: 0x0f, Source: AnySource},
				{Kind: Tagged, Tag: 0x10, Ignore: 0x0f, Source: AnySource},
				{Kind: Tagged, Tag: 0x02, Ignore: 0xf0, Source: AnySource},
			},
		},
		{
			name: "two overlapping masks, posted the other way round", kind: Tagged, tag: 0x12, want: 0,
			recvs: []posted{
				{Kind: Tagged, Tag: 0x02, Ignore: 0xf0, Source: AnySource},
				{Kind: Tagged, Tag: 0x10, Ignore: 0x0f, Source: AnySource},
			},
		},
		{
			name: "ignored bits of the posted tag don't matter", kind: Tagged, tag: 0x12, want: 0,
			recvs: []posted{{Kind: Tagged, Tag: 0x1f, Ignore: 0x0f, Source: AnySource}},
		},
		{
			name: "any source before directed", kind: Tagged, tag: 5, src: 3, want: 0,
			recvs: []posted{{Kind: Tagged, Tag: 5, Source: AnySource}, {Kind: Tagged, Tag: 5, Source: 3}},
		},
		{
			name: "directed before any source", kind: Tagged, tag: 5, src: 3, want: 1,
			recvs: []posted{
				{Kind: Tagged, Tag: 5, Source: 2},
				{Kind: Tagged, Tag: 5, Source: 3},
				{Kind: Tagged, Tag: 5, Source: AnySource},
			},
		},
		{
			name: "directed wildcard before any-source exact", kind: Tagged, tag: 5, src: 3, want: 0,
			recvs: []posted{{Kind: Tagged, Ignore: all, Source: 3}, {Kind: Tagged, Tag: 5, Source: AnySource}},
		},
		{
			name: "directed to someone else", kind: Tagged, tag: 5, src: 3, want: none,
			recvs: []posted{{Kind: Tagged, Tag: 5, Source: 2}},
		},
		{
			name: "unknown sender takes any source only", kind: Tagged, tag: 5, src: NotAvail, want: 2,
			recvs: []posted{
				{Kind: Tagged, Tag: 5, Source: 0},
				{Kind: Tagged, Tag: 5, Source: NotAvail},
				{Kind: Tagged, Tag: 5, Source: AnySource},
			},
		},
		{
			name: "untagged receive, tagged message", kind: Tagged, tag: 5, want: none,
			recvs: []posted{{Kind: Untagged, Tag: 5, Ignore: all, Source: AnySource}},
		},
		{
			name: "tagged receive, untagged message", kind: Untagged, tag: 5, want: none,
			recvs: []posted{{Kind: Tagged, Tag: 5, Ignore: all, Source: AnySource}},
		},
		{
			name: "untagged tags play no part", kind: Untagged, tag: 5, want: 0,
			recvs: []posted{{Kind: Untagged, Tag: 6, Source: AnySource}, {Kind: Untagged, Tag: 5, Source: AnySource}},
		},
		{
			name: "untagged directed", kind: Untagged, src: 3, want: 1,
			recvs: []posted{{Source: 2}, {Source: 3}, {Source: AnySource}},
		},
		{
			name: "all 64 bits of a tag", kind: Tagged, tag: all, want: 1,
			recvs: []posted{{Kind: Tagged, Tag: all >> 1, Source: AnySource}, {Kind: Tagged, Tag: all, Source: AnySource}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t, New())
			for _, r := range tc.recvs {
				h.post(r.Kind, r.Tag, r.Ignore, r.Source)
			}
			require.Equal(t, tc.want, h.arrive(tc.kind, tc.tag, tc.src))
			h.check()
		})
	}
}

func TestPostTakesTheOldestThatMatches(t *testing.T) {
	msgs := []Msg{
		{Kind: Untagged, Tag: 1, Source: 1},
		{Kind: Tagged, Tag: 0x12, Source: 1},
		{Kind: Tagged, Tag: 0x12, Source: 2},
		{Kind: Tagged, Tag: 0x13, Source: NotAvail},
		{Kind: Tagged, Tag: 0x23, Source: 2},
		{Kind: Untagged, Tag: 2, Source: 2},
		{Kind: Untagged, Tag: 3, Source: NotAvail},
	}
	for _, tc := range []struct {
		name string
		recv Recv
		want []int32 // matches of one receive after the other
	}{
		{"exact", Recv{Kind: Tagged, Tag: 0x12, Source: AnySource}, []int32{1, 2, none}},
		{"directed", Recv{Kind: Tagged, Tag: 0x12, Source: 2}, []int32{2, none}},
		{"wildcard", Recv{Kind: Tagged, Ignore: all, Source: AnySource}, []int32{1, 2, 3, 4, none}},
		{"directed wildcard", Recv{Kind: Tagged, Ignore: all, Source: 2}, []int32{2, 4, none}},
		{"mask of the low bits", Recv{Kind: Tagged, Tag: 0x1f, Ignore: 0x0f, Source: AnySource}, []int32{1, 2, 3, none}},
		{"mask of the high bits", Recv{Kind: Tagged, Tag: 0x03, Ignore: 0xf0, Source: AnySource}, []int32{3, 4, none}},
		{"from nobody", Recv{Kind: Tagged, Ignore: all, Source: NotAvail}, []int32{none}},
		{"untagged", Recv{Tag: 2, Source: AnySource}, []int32{0, 5, 6, none}},
		{"untagged directed", Recv{Source: 2}, []int32{5, none}},
	} {
		// Few messages are walked, many make an index: the answers are the same.
		for padding, name := range map[int]string{0: "walked", 100: "indexed"} {
			pad := Msg{Kind: tc.recv.Kind, Tag: 1 << 40, Source: 1 << 40}
			if padding > 0 && accepts(&tc.recv, pad.Kind, pad.Tag, pad.Source) {
				continue // takes whatever is first, and never needs an index
			}
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				h := newHarness(t, New())
				var owners []int32
				for range padding {
					h.addMsg(pad.Kind, pad.Tag, pad.Source)
				}
				for _, m := range msgs {
					owners = append(owners, h.addMsg(m.Kind, m.Tag, m.Source))
				}
				for _, want := range tc.want {
					if want != none {
						want = owners[want]
					}
					require.Equal(t, want, h.find(tc.recv.Kind, tc.recv.Tag, tc.recv.Ignore, tc.recv.Source))
					require.Equal(t, want, h.post(tc.recv.Kind, tc.recv.Tag, tc.recv.Ignore, tc.recv.Source))
				}
				h.check()
			})
		}
	}
}

// TestMatchedIsFree posts and adds the same structs again and again.
func TestMatchedIsFree(t *testing.T) {
	table := New()
	r := Recv{Kind: Tagged, Tag: 1, Source: AnySource}
	m := Msg{Kind: Tagged, Tag: 1, Source: 1}
	for range 3 {
		require.Nil(t, table.Post(&r))
		require.Same(t, &r, table.Arrive(Tagged, 1, 1))
		require.False(t, table.RemoveRecv(&r))
		require.Equal(t, Recv{Kind: Tagged, Tag: 1, Source: AnySource}, r, "a free receive holds on to nothing")
		table.AddMsg(&m)
		require.Same(t, &m, table.Post(&r))
		require.False(t, table.RemoveMsg(&m))
		require.Equal(t, Msg{Kind: Tagged, Tag: 1, Source: 1}, m, "a free message holds on to nothing")
	}
}

func TestEnteredTwice(t *testing.T) {
	table, other := New(), New()
	first, second := Recv{Kind: Tagged, Source: AnySource}, Recv{Kind: Tagged, Source: AnySource}
	table.Post(&first)
	table.Post(&second)
	require.Nil(t, table.Post(&first))
	require.Nil(t, other.Post(&first))
	require.False(t, other.RemoveRecv(&first))
	require.Equal(t, 2, table.Recvs())
	require.Equal(t, 0, other.Recvs())
	require.Same(t, &first, table.Arrive(Tagged, 0, 1), "kept its place")
	require.True(t, table.RemoveRecv(&second))

	one, two := Msg{Kind: Tagged, Source: 1}, Msg{Kind: Tagged, Source: 1}
	table.AddMsg(&one)
	table.AddMsg(&two)
	table.AddMsg(&one)
	other.AddMsg(&one)
	require.False(t, other.RemoveMsg(&one))
	other.Rekey(&one, 7)
	require.Equal(t, Source(1), one.Source)
	require.Equal(t, 2, table.Msgs())
	require.Equal(t, 0, other.Msgs())
	require.Same(t, &one, table.Find(Tagged, 0, 0, 1), "kept its place")
}

// TestUnknownKind: a kind that is not untagged is tagged, and nothing panics.
func TestUnknownKind(t *testing.T) {
	table := New()
	r := Recv{Kind: 200, Tag: 4, Source: AnySource}
	require.Nil(t, table.Post(&r))
	require.Nil(t, table.Arrive(200, 5, 1))
	require.Same(t, &r, table.Arrive(Tagged, 4, 1))
	require.Equal(t, "tagged", Tagged.String())
	require.Equal(t, "untagged", Untagged.String())
}

// TestRekey makes an unknown sender known while messages of it wait, between
// others of the same key: they come out in order of arrival.
func TestRekey(t *testing.T) {
	for _, waiting := range []int{0, 100} {
		h := newHarness(t, New())
		for range waiting {
			h.addMsg(Tagged, 99, 9)
		}
		h.find(Tagged, 7, 0, 3) // if many wait, there is an index from here on
		var owners []int32
		for _, src := range []Source{NotAvail, 3, NotAvail, 3, NotAvail} {
			owners = append(owners, h.addMsg(Tagged, 7, src))
		}
		require.Equal(t, owners[1], h.find(Tagged, 7, 0, 3))
		for _, i := range []int{4, 0, 2} {
			h.rekey(owners[i], 3)
			h.check()
		}
		h.rekey(owners[3], NotAvail) // removed from the address vector
		for _, i := range []int{0, 1, 2, 4} {
			require.Equal(t, owners[i], h.post(Tagged, 7, 0, 3))
		}
		require.Equal(t, none, h.post(Tagged, 7, 0, 3))
		require.Equal(t, owners[3], h.post(Tagged, 7, 0, AnySource))
		h.check()
	}
}

// TestRekeyOffersToDirected is the sequence that the comment of Rekey shows.
func TestRekeyOffersToDirected(t *testing.T) {
	table := New()
	msgs := [3]Msg{
		{Kind: Tagged, Tag: 1, Source: NotAvail, Owner: 0},
		{Kind: Tagged, Tag: 1, Source: 2, Owner: 1},
		{Kind: Tagged, Tag: 1, Source: NotAvail, Owner: 2},
	}
	for i := range msgs {
		table.AddMsg(&msgs[i])
	}
	r := Recv{Kind: Tagged, Tag: 1, Source: 3}
	require.Nil(t, table.Post(&r))
	var matched []int32
	table.EachMsg(func(m *Msg) bool {
		if m.Source != NotAvail {
			return true
		}
		table.Rekey(m, 3)
		if got := table.Arrive(m.Kind, m.Tag, 3); got != nil {
			require.Same(t, &r, got)
			require.True(t, table.RemoveMsg(m))
			matched = append(matched, m.Owner)
		}
		return true
	})
	require.Equal(t, []int32{0}, matched)
	require.Equal(t, 2, table.Msgs())
	require.Same(t, &msgs[2], table.Find(Tagged, 1, 0, 3))
}

func TestEachWhileChanging(t *testing.T) {
	const n = 20
	fill := func() (*Table, []*Recv) {
		table := New()
		recvs := make([]*Recv, n)
		for i := range recvs {
			recvs[i] = &Recv{Kind: Kind(i / 3 % 2), Source: AnySource, Owner: int32(i)}
			table.Post(recvs[i])
		}
		return table, recvs
	}
	walk := func(table *Table, f func(*Recv) bool) (seen []int32) {
		table.EachRecv(func(r *Recv) bool {
			seen = append(seen, r.Owner)
			return f(r)
		})
		return seen
	}
	inOrder := make([]int32, n)
	for i := range inOrder {
		inOrder[i] = int32(i)
	}

	t.Run("stop", func(t *testing.T) {
		table, _ := fill()
		require.Equal(t, inOrder[:4], walk(table, func(r *Recv) bool { return r.Owner != 3 }))
	})
	t.Run("remove it", func(t *testing.T) {
		table, _ := fill()
		require.Equal(t, inOrder, walk(table, func(r *Recv) bool { return table.RemoveRecv(r) }))
		require.Zero(t, table.Recvs())
		require.NoError(t, table.verify())
	})
	t.Run("remove it and post it again", func(t *testing.T) {
		table, _ := fill()
		require.Equal(t, inOrder, walk(table, func(r *Recv) bool {
			table.RemoveRecv(r)
			return table.Post(r) == nil
		}))
		require.Equal(t, inOrder, walk(table, func(*Recv) bool { return true }))
	})
	t.Run("remove the two that follow", func(t *testing.T) {
		table, recvs := fill()
		require.Equal(t, []int32{0, 3, 6, 9, 12, 15, 18}, walk(table, func(r *Recv) bool {
			for i := int(r.Owner) + 1; i < min(n, int(r.Owner)+3); i++ {
				require.True(t, table.RemoveRecv(recvs[i]))
			}
			return true
		}))
		require.NoError(t, table.verify())
	})
	t.Run("remove all", func(t *testing.T) {
		table, recvs := fill()
		require.Equal(t, []int32{0}, walk(table, func(*Recv) bool {
			for _, r := range recvs {
				table.RemoveRecv(r)
			}
			return true
		}))
	})
}

// TestManyStaysFirst: a receive of many messages takes every message that matches, before
// younger receives and after older ones, until it is removed.
func TestManyStaysFirst(t *testing.T) {
	table := New()
	older := &Recv{Kind: Tagged, Tag: 5, Source: AnySource}
	many := &Recv{Kind: Tagged, Many: true, Ignore: all, Source: AnySource}
	next := &Recv{Kind: Tagged, Many: true, Ignore: all, Source: AnySource}
	younger := &Recv{Kind: Tagged, Tag: 5, Source: 1}
	for _, r := range []*Recv{older, many, next, younger} {
		require.Nil(t, table.Post(r))
	}
	require.Same(t, older, table.Arrive(Tagged, 5, 1))
	for tag := range uint64(100) {
		require.Same(t, many, table.Arrive(Tagged, tag, 1))
	}
	require.Nil(t, table.Arrive(Untagged, 0, 1))
	require.Equal(t, 3, table.Recvs())
	require.True(t, table.RemoveRecv(many))
	require.Same(t, next, table.Arrive(Tagged, 5, 1))
	require.True(t, table.RemoveRecv(next))
	require.Same(t, younger, table.Arrive(Tagged, 5, 1))
	require.Zero(t, table.Recvs())
}

// TestManyTakesWhatWaits: posted again and again it gets the messages that wait, oldest first,
// and stands in the table when there is none left.
func TestManyTakesWhatWaits(t *testing.T) {
	table := New()
	msgs := make([]Msg, 50)
	for i := range msgs {
		msgs[i] = Msg{Kind: Tagged, Tag: uint64(i % 2), Source: 1}
		table.AddMsg(&msgs[i])
	}
	r := &Recv{Kind: Tagged, Many: true, Tag: 1, Source: AnySource}
	for i := 1; i < len(msgs); i += 2 {
		require.Same(t, &msgs[i], table.Post(r))
	}
	require.Nil(t, table.Post(r))
	require.Equal(t, 1, table.Recvs())
	require.Equal(t, 25, table.Msgs())
	require.Zero(t, testing.AllocsPerRun(100, func() { table.Arrive(Tagged, 1, 1) }))
}

// TestNoAllocation runs a mixed load once to warm up, and then without a single
// allocation: receives of 64 classes and beyond them, and a long queue of messages
// with seven indexes.
func TestNoAllocation(t *testing.T) {
	const n = 2000
	table := New()
	recvs, msgs := make([]Recv, n), make([]Msg, n)
	find := func(tag uint64) {
		table.Find(Tagged, tag, 0, AnySource)
		for ignore := range uint64(6) {
			table.Find(Tagged, tag, ignore, 1)
		}
	}
	load := func() {
		for i := range recvs {
			recvs[i] = Recv{Kind: Tagged, Tag: uint64(i), Ignore: uint64(i % 40), Source: AnySource}
			if i/40%2 == 0 {
				recvs[i].Source = 1
			}
			table.Post(&recvs[i])
		}
		for i := range recvs {
			table.Arrive(Tagged, uint64(n-1-i), 1) // from the end, so that the receives are filed
		}
		for i := range recvs {
			table.RemoveRecv(&recvs[i])
		}
		for i := range msgs {
			msgs[i] = Msg{Kind: Tagged, Tag: uint64(i), Source: NotAvail}
			table.AddMsg(&msgs[i])
			table.Rekey(&msgs[i], 1)
			find(all)
		}
		for i := range msgs {
			table.RemoveMsg(&msgs[i])
			table.AddMsg(&msgs[i])
			find(uint64(i))
		}
		table.EachMsg(func(m *Msg) bool { return table.RemoveMsg(m) })
	}
	load()
	require.Equal(t, 7, bits.OnesCount64(table.spaces[Tagged].indexed))
	require.Len(t, table.spaces[Tagged].classes, maxClasses)
	require.Zero(t, testing.AllocsPerRun(3, load))
	require.Zero(t, table.Recvs()+table.Msgs())
	require.NoError(t, table.verify())
}
