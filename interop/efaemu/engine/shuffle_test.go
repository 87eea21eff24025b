package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
)

// shuffled sends and reads n times and gives the order in which all came.
func shuffled(t *testing.T, s engine.Shuffle, n int) (sent, came []uint64) {
	w, a, b := pair(t, options{engine: engine.Config{Shuffle: s}}, progConfig{sq: 64, rq: 64, cq: 128})
	for i := range n {
		b.buffer(uint16(i), 4)
		wqe := a.to(b, inline(uint16(i), nil))
		wqe.HasImm, wqe.Imm = true, uint32(i)
		if i%5 == 0 {
			wqe = rdma(a, b, abi.WorkWrite, a.mem.base(), 10)
			wqe.ReqID, wqe.HasImm, wqe.Imm = uint64(i), true, uint32(i)
		}
		a.post(wqe)
		if i%32 == 31 || i == n-1 {
			w.run()
			for _, c := range a.poll() {
				require.Zero(t, c.Status)
				sent = append(sent, c.ReqID)
			}
			for _, c := range b.poll() {
				came = append(came, uint64(c.Imm))
			}
		}
	}
	w.clean()
	return sent, came
}

func TestShuffle(t *testing.T) {
	sent, came := shuffled(t, engine.Shuffle{}, 200)
	packets := slices.DeleteFunc(slices.Clone(came), func(i uint64) bool { return i%5 == 0 }) // RDMA has a way of its own
	require.True(t, slices.IsSorted(packets), "nothing is held back")
	orders := map[string]bool{fmt.Sprint(sent, came): true}
	for seed := range uint64(4) {
		s := engine.Shuffle{Window: 8, Seed: seed}
		sent, came := shuffled(t, s, 200)
		again, cameAgain := shuffled(t, s, 200)
		require.Equal(t, sent, again)
		require.Equal(t, came, cameAgain, "the seed repeats it")
		orders[fmt.Sprint(sent, came)] = true
		assert.False(t, slices.IsSorted(came))
		moved := 0
		for i, v := range came {
			if int(v) != i {
				moved++
			}
		}
		assert.Greater(t, moved, 100)
		slices.Sort(sent)
		slices.Sort(came)
		assert.Len(t, slices.Compact(sent), 200, "each once")
		assert.Len(t, slices.Compact(came), 200)
	}
	assert.Len(t, orders, 5)
}

// What is sent after the acknowledgement of another packet does not overtake that.
func TestAcknowledgedIsNotOvertaken(t *testing.T) {
	for seed := range uint64(8) {
		o := options{engine: engine.Config{Shuffle: engine.Shuffle{Window: 8, Seed: seed}}}
		w, a, b := pair(t, o, progConfig{sq: 64, rq: 64, cq: 128})
		acknowledged := map[uint64]int{} // ids, and how many had been posted by then
		posted := 0
		post := func() {
			b.buffer(uint16(posted), 4)
			wqe := a.to(b, inline(uint16(posted), nil))
			wqe.HasImm, wqe.Imm = true, uint32(posted)
			a.post(wqe)
			posted++
		}
		for posted < 40 {
			post()
			a.e.Step() // b doesn't look meanwhile
			w.fab.Step()
			for _, c := range a.poll() {
				require.Zero(t, c.Status)
				acknowledged[c.ReqID] = posted
			}
		}
		w.run()
		order := map[uint64]int{}
		for i, c := range b.poll() {
			order[uint64(c.Imm)] = i
		}
		require.Len(t, order, 40)
		require.NotEmpty(t, acknowledged)
		for id, n := range acknowledged {
			for later := n; later < posted; later++ {
				require.Less(t, order[id], order[uint64(later)], "%d was acknowledged when %d was posted", id, later)
			}
		}
		w.clean()
	}
}

// A packet that no other overtakes is released after a few rounds, though time stands
// still; and one that others could overtake for ever is released after a while.
func TestNothingIsHeldForLong(t *testing.T) {
	w, a, b := pair(t, options{engine: engine.Config{Shuffle: engine.Shuffle{Window: 100}}}, progConfig{sq: 64, rq: 64, cq: 256})
	b.buffer(1, 1)
	a.post(a.to(b, inline(1, nil)))
	rounds := 0
	for ; len(b.poll()) == 0; rounds++ {
		require.True(t, a.e.Step() || b.e.Step() || rounds < 1)
		b.e.Step()
		require.Less(t, rounds, 12)
	}
	w.run()
	a.poll()

	b.buffer(2, 1)
	a.post(a.to(b, inline(1, nil)))
	for i := 0; ; i++ {
		w.moved.Advance(50 * time.Microsecond)
		a.e.Step()
		b.e.Step()
		if got := b.poll(); len(got) > 0 {
			assert.Equal(t, uint64(2), got[0].ReqID)
			break
		}
		require.Less(t, i, 25, "1.25 ms")
		b.buffer(uint16(3+i), 1)
		a.post(a.to(b, inline(uint16(3+i), nil)))
	}
	w.run()
	w.clean()
}
