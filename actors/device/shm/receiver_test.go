package shm

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// One sender that always finishes is a queue: this is its model, over many laps
// and with slots that come back in any order.
func TestRingModel(t *testing.T) {
	for _, slots := range []int{1, 2, 3, 5, 8, 13} {
		rng := rand.New(rand.NewPCG(uint64(slots), 1))
		w := newTableau(slots, 1, 0)
		out := &w.senders[0].out
		var queue [][]byte
		posted := 0
		for n := range 20000 {
			switch rng.IntN(3) {
			case 0:
				if len(w.free) == 0 {
					continue
				}
				i := rng.IntN(len(w.free))
				w.free[0], w.free[i] = w.free[i], w.free[0]
				w.postOne()
				w.rx.flush()
				posted++
			case 1:
				b := make([]byte, rng.IntN(w.rx.mtu+1))
				for i := range b {
					b[i] = byte(n + i)
				}
				cut := rng.IntN(len(b) + 1)
				if posted == 0 {
					require.Equal(t, notReady, out.send(&device.SendWR{Header: b[:cut], Payload: b[cut:]}, 0))
					continue
				}
				require.Equal(t, sent, out.send(&device.SendWR{Header: b[:cut], Payload: b[cut:]}, 0))
				queue, posted = append(queue, b), posted-1
			case 2:
				var p packet
				if len(queue) == 0 {
					require.False(t, w.rx.lookNext(&p))
					continue
				}
				require.True(t, w.rx.lookNext(&p))
				require.Equal(t, packet{slot: p.slot, slotState: slotState{makeWord(ready, w.rx.lap(w.rx.head-1), uint16(len(queue[0])), uint16(p.slot), 0), out.self}}, p)
				require.Equal(t, queue[0], w.rx.slotBytes(int(p.slot))[:p.w.length()])
				queue, w.free = queue[1:], append(w.free, p.slot)
			}
		}
	}
}

// Senders that stop anywhere for any time hold up no other sender, and their claims
// are free again when they go on.
func TestRingSlowSenders(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newTableau(6, 3, 200)
	for range 400 {
		pace := [3]int{rng.IntN(4), rng.IntN(4), rng.IntN(4)} // 0: stands still
		for range 60 {
			for i := range w.senders {
				if rng.IntN(4) < pace[i] {
					w.stepSender(i)
				}
			}
			_, err := w.poll()
			require.NoError(t, err)
			require.NoError(t, w.order())
			if rng.IntN(2) == 0 && w.postOne() {
				w.rx.flush()
				w.flush = false
			}
		}
	}
	require.Len(t, w.got, 600)
	for i := range w.senders {
		require.Equal(t, 200, w.senders[i].sent)
	}
}

// The same with goroutines, where the race detector sees the memory.
func TestRingConcurrent(t *testing.T) {
	const senders, packets = 3, 3000
	w := newTableau(8, senders, 0)
	for w.postOne() {
	}
	w.rx.flush()
	var wait sync.WaitGroup
	for i := range senders {
		out := w.senders[i].out
		wait.Go(func() {
			b := make([]byte, inlineMax+16)
			for n := range packets {
				for at := 0; at < len(b); at += 4 {
					binary.LittleEndian.PutUint32(b[at:], uint32(n))
				}
				size := 4 + 4*(n%(len(b)/4))
				for out.send(&device.SendWR{Header: b[:4], Payload: b[4:size]}, 0) == notReady {
					runtime.Gosched()
				}
			}
		})
	}
	var came [senders][packets]bool
	for total := 0; total < senders*packets; {
		var p packet
		if !w.rx.nextAside(&p) && !w.rx.lookNext(&p) {
			runtime.Gosched()
			continue
		}
		require.Equal(t, ready, p.w.kind())
		b := w.rx.slotBytes(int(p.slot))[:p.w.length()]
		n := int(binary.LittleEndian.Uint32(b))
		for at := 0; at < len(b); at += 4 {
			require.Equal(t, uint32(n), binary.LittleEndian.Uint32(b[at:]))
		}
		// In order as a rule, but a late publisher may even overtake itself.
		require.False(t, came[p.w.sender()][n], "packet %d twice", n)
		came[p.w.sender()][n] = true
		total++
		w.rx.postSlot(p.slot)
		w.rx.flush()
	}
	wait.Wait()
}

// A sender that finds the tail, the posted count or its own hint wrong finds the
// posts all the same, at the second attempt at the latest.
func TestRingWrongHints(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := newTableau(8, 1, 0)
	out := &w.senders[0].out
	for n := range 20000 {
		for w.postOne() {
		}
		w.rx.flush()
		switch rng.IntN(4) {
		case 0:
			w.rx.ctl.tail.Store(rng.Uint64())
			out.aim(w.rx.ctl.tail.Load())
		case 1:
			out.aim(w.rx.end + uint64(rng.IntN(30)) - 15)
		case 2:
			w.rx.ctl.posted.Store(rng.Uint64())
			out.send(&device.SendWR{}, 0) // it ends
			w.rx.flush()
		}
		got := out.send(&device.SendWR{Header: []byte{byte(n)}}, 0)
		if got == notReady {
			got = out.send(&device.SendWR{Header: []byte{byte(n)}}, 0)
		}
		require.Equal(t, sent, got)
		for {
			var p packet
			if !w.rx.lookNext(&p) {
				break
			}
			w.free = append(w.free, p.slot)
		}
		require.Len(t, w.free, w.rx.slots-int(w.rx.end-w.rx.head))
	}
}

// With any garbage in the words that senders write the receiver does not panic,
// spins no longer than the ring is, never loses a slot and receives again
// afterwards.
func TestRingGarbage(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	w := newTableau(8, 1, 0)
	out := &w.senders[0].out
	garbage := func() uint64 {
		if rng.IntN(2) == 0 {
			return rng.Uint64()
		}
		k := kind(rng.IntN(4)) // nearly right
		return uint64(makeWord(k, w.rx.lap(w.rx.head)+uint16(rng.IntN(2)), uint16(rng.IntN(400)), uint16(rng.IntN(10)), rng.IntN(3)))
	}
	drain := func() {
		for range 3 * w.rx.cells {
			var p packet
			if !w.rx.nextAside(&p) && !w.rx.lookNext(&p) {
				return
			}
			require.LessOrEqual(t, p.w.length(), w.rx.mtu)
			w.free = append(w.free, p.slot)
		}
		t.Fatal("more packets than slots")
	}
	for range 20000 {
		for w.postOne() {
		}
		w.rx.flush()
		for range 1 + rng.IntN(4) {
			switch rng.IntN(4) {
			case 0:
				w.rx.post(uint64(rng.IntN(w.rx.cells))).Store(garbage())
			case 1:
				w.rx.cell[rng.IntN(w.rx.cells)].word.Store(garbage())
			case 2:
				w.rx.senders[rng.IntN(4)].who.Store(rng.Uint64())
			case 3:
				out.send(&device.SendWR{Header: []byte("x")}, 0)
			}
		}
		w.rx.looks = w.rx.patience
		drain()
		// Entries of dead senders are freed, as by the watcher and buryDead, and
		// with them the claims in their name.
		for i := range w.rx.senders[:8] {
			s := &w.rx.senders[i]
			if who := ident(s.who.Load()); i == out.me {
				s.who.Store(uint64(out.self))
			} else if who != 0 {
				s.who.Store(0)
			}
		}
		require.True(t, w.rx.drained(w.rx.end) || w.rx.pending())
		var p packet
		for w.rx.reclaim(out.me, &p) { // claims that garbage made in our name
			w.free = append(w.free, p.slot)
		}
		w.rx.looks = w.rx.patience
		drain()
	}
	outstanding := len(w.rx.later)
	for _, p := range w.rx.own {
		if p.hasSlot() {
			outstanding++
		}
	}
	require.Equal(t, w.rx.slots, outstanding+len(w.free))
}

// lookNext takes the next packet, if there is one.
func (r *receiver) lookNext(p *packet) bool {
	w := r.look()
	return !r.nothing(w) && r.next(w, p)
}
