package match

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMoreMasksThanClasses posts three receives to each of 200 masks, all of
// which take tag 0, and lets messages take them in order.
func TestMoreMasksThanClasses(t *testing.T) {
	const masks = 200
	h := newHarness(t, New())
	for i := range uint64(3 * masks) {
		h.post(Tagged, 0, i%masks, AnySource)
	}
	s := &h.table.spaces[Tagged]
	require.Empty(t, s.classes, "nothing is filed before an arrival walks far")
	h.check()
	require.Equal(t, int32(128), h.arrive(Tagged, 128, 1), "all that ignore bit 7 are beyond the classes")
	require.Len(t, s.classes, maxClasses)
	require.NotNil(t, s.filed.rest)
	h.check()
	for h.table.Recvs() > 0 {
		h.arrive(Tagged, 0, 1)
	}
	h.check()

	// The classes are empty, so that new masks get some, in the same order always.
	require.Zero(t, s.filed.keys)
	h.fileRecvs(1 << 60)
	require.Equal(t, uint64(1<<60), ^s.classes[0].bits)
	require.Nil(t, s.filed.rest)
	h.check()
}

// fileRecvs posts so many receives of one class that an arrival which none of them takes has
// the receives filed, from then on.
func (h *harness) fileRecvs(ignore uint64) {
	h.t.Helper()
	for i := range uint64(walkSteps + 1) {
		h.post(Tagged, 1<<40+i, ignore, AnySource)
	}
	h.equal("filed", h.table.spaces[Tagged].filed.keys, 0)
	h.arrive(Tagged, 1<<41, 1)
	h.equal("filed", h.table.spaces[Tagged].filed.keys, walkSteps+1)
}

// TestClassOfTheOldestReceiveGivesWay: of empty classes, the one that was posted
// to least recently.
func TestClassOfTheOldestReceiveGivesWay(t *testing.T) {
	h := newHarness(t, New())
	use := func(mask uint64) { // with so many that they are filed
		for i := range uint64(walkSteps + 1) {
			h.post(Tagged, i<<8, mask, AnySource)
		}
		h.arrive(Tagged, 1<<42, 1)
		h.check()
		for i := range uint64(walkSteps + 1) {
			h.arrive(Tagged, i<<8, 1)
		}
	}
	h.fileRecvs(0)
	for mask := range uint64(maxClasses) {
		use(mask)
	}
	use(0)
	use(2)
	use(1 << 60)
	use(1 << 61)
	classes := h.table.spaces[Tagged].classes
	require.Len(t, classes, maxClasses)
	var masks []uint64
	for _, c := range classes[:5] {
		masks = append(masks, ^c.bits)
	}
	require.Equal(t, []uint64{0, 1 << 60, 2, 1 << 61, 4}, masks)
}

// TestMoreMasksThanIndexes peeks with 200 masks at a long queue.
func TestMoreMasksThanIndexes(t *testing.T) {
	h := newHarness(t, New())
	for i := range uint64(300) {
		h.addMsg(Tagged, i<<8, 1)
	}
	s := &h.table.spaces[Tagged]
	for round := range 2 {
		for mask := range uint64(200) {
			h.find(Tagged, 250<<8, mask, AnySource)
			h.find(Tagged, 1, 1<<40|mask<<1, AnySource) // none
		}
		require.Equal(t, maxIndexes, bits.OnesCount64(s.indexed), "round %d", round)
		h.check()
	}
	// No one asks any more: arrivals drop the indexes again, and later masks get one.
	for i := range 4 * minIdle {
		h.removeMsg(h.addMsg(Tagged, uint64(i), 1))
	}
	require.Zero(t, s.indexed)
	h.check()
	h.find(Tagged, 250<<8, 199, AnySource)
	require.Equal(t, 1, bits.OnesCount64(s.indexed))
	h.check()
}

// TestIndexKeptWhileUsed: an index that is asked now and then stays.
func TestIndexKeptWhileUsed(t *testing.T) {
	h := newHarness(t, New())
	for i := range uint64(100) {
		h.addMsg(Tagged, i, 1)
	}
	h.find(Tagged, 99, 0, AnySource)
	s := &h.table.spaces[Tagged]
	made := s.indexed
	require.NotZero(t, made)
	for i := range 4 * minIdle {
		if i%(minIdle/2) == 0 {
			h.find(Tagged, 99, 0, AnySource)
		}
		h.removeMsg(h.addMsg(Tagged, 1000, 1))
		require.Equal(t, made, s.indexed)
	}
}

// TestLongIndexIdlesLonger: an index that is expensive to make is kept for longer.
func TestLongIndexIdlesLonger(t *testing.T) {
	const n = 3 * minIdle
	h := newHarness(t, New())
	for i := range uint64(n) {
		h.addMsg(Tagged, i, 1)
	}
	h.find(Tagged, n-1, 0, AnySource)
	s := &h.table.spaces[Tagged]
	churn := func(times int) {
		for range times {
			h.removeMsg(h.addMsg(Tagged, n, 1))
		}
	}
	churn(2 * n)
	require.NotZero(t, s.indexed)
	churn(10)
	require.Zero(t, s.indexed)
	h.check()
}

// TestShortQueueHasNoIndex: the first few messages are walked.
func TestShortQueueHasNoIndex(t *testing.T) {
	h := newHarness(t, New())
	for i := range uint64(walkSteps - 1) {
		h.addMsg(Tagged, i, 1)
	}
	require.Equal(t, none, h.find(Tagged, 99, 0, AnySource))
	require.Zero(t, h.table.spaces[Tagged].indexed)
	require.Equal(t, int32(walkSteps-1), h.addMsg(Tagged, 50, 1))
	require.Equal(t, none, h.find(Tagged, 99, 0, AnySource))
	require.NotZero(t, h.table.spaces[Tagged].indexed)
}

// TestFloodGivesBack: memory that a flood made the table allocate isn't kept after
// it.
func TestFloodGivesBack(t *testing.T) {
	const flood = keepPool + 2*poolSlab
	table := New()
	msgs := make([]Msg, flood)
	s := &table.spaces[Tagged]
	for i := range msgs {
		msgs[i] = Msg{Kind: Tagged, Tag: uint64(i), Source: 1}
		table.AddMsg(&msgs[i])
		if i == 100 {
			require.Nil(t, table.Find(Tagged, all, 0, AnySource))
			require.Nil(t, table.Find(Tagged, all, 0, 2))
		}
		if i%minIdle == 0 {
			table.Find(Tagged, all, 0, AnySource)
			table.Find(Tagged, all, 0, 2)
		}
	}
	require.Equal(t, 2, bits.OnesCount64(s.indexed))
	require.Greater(t, len(s.classes[0].msgs.buckets), keepBuckets)
	for i := range msgs {
		require.True(t, table.RemoveMsg(&msgs[i]))
	}
	require.Nil(t, table.pool.free)
	require.Zero(t, table.pool.n)
	require.Empty(t, s.classes[0].msgs.buckets)
	require.NoError(t, table.verify())
}

// TestTagsThatHashAlike: a peer that knows the seed fills one bucket. Matches stay
// right, and under another seed the same tags are spread.
func TestTagsThatHashAlike(t *testing.T) {
	const n, sameBits = 500, 1<<10 - 1
	var tags []uint64
	for tag := uint64(0); len(tags) < n; tag++ {
		if hash(defaultSeed, tag, AnySource)&sameBits == 7 {
			tags = append(tags, tag)
		}
	}
	longest := func(table *Table) (n int) {
		for _, lead := range table.spaces[Tagged].classes[0].msgs.buckets {
			length := 0
			for ; lead != nil; lead = lead.chain {
				length++
			}
			n = max(n, length)
		}
		return n
	}
	for seed, hostile := range map[uint64]bool{defaultSeed: true, 1: false} {
		h := newHarness(t, NewSeeded(seed))
		for range 3 {
			for _, tag := range tags {
				h.addMsg(Tagged, tag, 1)
			}
		}
		h.find(Tagged, all, 0, AnySource)
		if hostile {
			require.Equal(t, n, longest(h.table))
		} else {
			require.Less(t, longest(h.table), 12)
		}
		h.check()
		for i := range tags {
			h.post(Tagged, tags[(i*7)%n], 0, AnySource)
			h.find(Tagged, tags[(i*11)%n], 0, AnySource)
		}
		h.check()
	}
}

// TestSpread: tags that applications use fill the buckets evenly.
func TestSpread(t *testing.T) {
	const n = 8192
	for name, tagOf := range map[string]func(i uint64) uint64{
		"counter":           func(i uint64) uint64 { return i },
		"counter above":     func(i uint64) uint64 { return i << 32 },
		"counter on top":    func(i uint64) uint64 { return i << 51 },
		"multiples of 4096": func(i uint64) uint64 { return i << 12 },
		"rank and counter":  func(i uint64) uint64 { return i%64<<40 | i/64 },
		"set bits":          func(i uint64) uint64 { return i&127<<57 | i>>7 },
	} {
		for _, seed := range []uint64{0, 1, defaultSeed, all} {
			x := index[Msg]{seed: seed}
			for i := range uint64(n) {
				x.insert(&node[Msg]{tag: tagOf(i), src: AnySource})
			}
			steps := 0
			for _, lead := range x.buckets {
				length := 0
				for ; lead != nil; lead = lead.chain {
					length++
					steps += length
				}
				require.Less(t, length, 12, "%s, seed %#x", name, seed)
			}
			// 1.5 steps to find one are what chance gives at one key per bucket.
			require.Less(t, float64(steps)/n, 1.6, "%s, seed %#x", name, seed)
		}
	}
}
