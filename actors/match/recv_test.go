package match

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// filedOf returns how many receives are filed, which are the oldest.
func (s *space) filedOf() (n int) {
	for r := s.recvs.oldest(); r != nil && r.class != nil; r = s.recvs.after(r) {
		n++
	}
	return n
}

// TestLaterReceivesAreNotFiled: after receives are filed, later ones stay out until an arrival
// that no filed one takes meets more than a few of them. All match in order of posting.
func TestLaterReceivesAreNotFiled(t *testing.T) {
	h := newHarness(t, New())
	h.fileRecvs(0)
	s := &h.table.spaces[Tagged]
	filed := s.filedOf()
	require.Equal(t, walkSteps+1, filed)
	for range 100 { // as a latency benchmark does
		h.post(Tagged, 1, 0, AnySource)
		h.arrive(Tagged, 1, 1)
		require.Equal(t, filed, s.filedOf())
	}
	for i := range uint64(walkSteps) {
		h.post(Tagged, i%3, 0, AnySource)
	}
	h.arrive(Tagged, 77, 1)
	require.Equal(t, filed, s.filedOf())
	require.Equal(t, int32(1), h.arrive(Tagged, 1<<40+1, 1), "a filed one, whatever waits since")
	h.check()

	h.post(Tagged, 0, 0, 1)
	h.post(Tagged, 0, all, AnySource)
	h.arrive(Tagged, 77, NotAvail)
	h.check()
	require.Equal(t, h.table.Recvs(), s.filedOf())
	for i := range uint64(3 * walkSteps) {
		h.post(Tagged, 2, 0, AnySource)
		h.arrive(Tagged, i%3, 1)
		h.arrive(Tagged, 2, 1)
		h.arrive(Tagged, 1<<40+i, 1)
		h.check()
	}
	require.Zero(t, h.table.Recvs())
}

// TestNobodyMatchesNotAvail: a receive from NotAvail takes nothing, filed or not.
func TestNobodyMatchesNotAvail(t *testing.T) {
	h := newHarness(t, New())
	for i := range uint64(2 * walkSteps) {
		h.post(Tagged, i, 0, NotAvail)
		h.post(Tagged, i, 0, 1)
	}
	for _, src := range []Source{NotAvail, 1, 2} {
		for i := range uint64(2 * walkSteps) {
			h.arrive(Tagged, i, src)
		}
	}
	require.Equal(t, 2*walkSteps, h.table.Recvs())
	require.Equal(t, 2*walkSteps, h.table.spaces[Tagged].filedOf())
	for i := range h.recvs {
		h.removeRecv(int32(i))
	}
	h.check()
}

// TestFiledSpread: keys that applications use fill the chains evenly.
func TestFiledSpread(t *testing.T) {
	const n = 8192
	tag := func(f func(i uint64) uint64) func(i uint64) Recv {
		return func(i uint64) Recv { return Recv{Kind: Tagged, Tag: f(i), Source: AnySource} }
	}
	for name, recvOf := range map[string]func(i uint64) Recv{
		"counter":           tag(func(i uint64) uint64 { return i }),
		"counter above":     tag(func(i uint64) uint64 { return i << 32 }),
		"counter on top":    tag(func(i uint64) uint64 { return i << 51 }),
		"multiples of 4096": tag(func(i uint64) uint64 { return i << 12 }),
		"rank and counter":  tag(func(i uint64) uint64 { return i%64<<40 | i/64 }),
		"set bits":          tag(func(i uint64) uint64 { return i&127<<57 | i>>7 }),
		"sources":           func(i uint64) Recv { return Recv{Source: Source(i)} },
		"sources, one tag":  func(i uint64) Recv { return Recv{Kind: Tagged, Tag: 7, Source: Source(i)} },
		"sources and tags":  func(i uint64) Recv { return Recv{Kind: Tagged, Tag: i % 64, Source: Source(i / 64)} },
		"four classes": func(i uint64) Recv {
			return Recv{Kind: Tagged, Tag: i / 4, Ignore: i % 2 << 60, Source: AnySource - Source(i/2%2)*(AnySource-1)}
		},
	} {
		for _, seed := range []uint64{0, 1, defaultSeed, all} {
			table := NewSeeded(seed)
			recvs := make([]Recv, n)
			for i := range recvs {
				recvs[i] = recvOf(uint64(i))
				table.Post(&recvs[i])
			}
			s := table.space(recvs[0].Kind)
			require.Nil(t, table.Arrive(recvs[0].Kind, all>>1, NotAvail))
			require.Equal(t, n, s.filed.keys)
			steps := 0
			for _, lead := range s.filed.chains {
				for i := 1; lead != nil; i, lead = i+1, lead.chain {
					steps += i
				}
			}
			// A random function needs 1.25 at one key in two chains.
			require.Less(t, float64(steps)/n, 1.4, "%s, seed %#x", name, seed)
		}
	}
}

// TestFiledFloodGivesBack: chains that a flood of receives made are not kept after it.
func TestFiledFloodGivesBack(t *testing.T) {
	const flood = keepChains/2 + 1
	table := New()
	recvs := make([]Recv, flood)
	for i := range recvs {
		recvs[i] = Recv{Kind: Tagged, Tag: uint64(i), Source: AnySource}
		table.Post(&recvs[i])
	}
	require.Nil(t, table.Arrive(Tagged, all, 1))
	require.Greater(t, len(table.spaces[Tagged].filed.chains), keepChains)
	for i := range recvs {
		require.True(t, table.RemoveRecv(&recvs[i]))
		require.Equal(t, Recv{Kind: Tagged, Tag: uint64(i), Source: AnySource}, recvs[i], "a free receive holds on to nothing")
	}
	require.Empty(t, table.spaces[Tagged].filed.chains)
	require.NoError(t, table.verify())
}
