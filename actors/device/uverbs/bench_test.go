//go:build linux

package uverbs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// player is a queue pair whose completions the test writes, as a card would.
type player struct {
	q     *QP
	f     *fake
	wr    device.SendWR
	comps [32]device.Completion
	ring  []byte
	lap   int // entries
	done  int // completions so far
}

func newPlayer(tb testing.TB, bytes int) *player {
	f := newFake(tb)
	_, q, ah := f.open(device.QPConfig{SQDepth: 64, RQDepth: 64})
	tb.Cleanup(func() { require.NoError(tb, q.Close()) })
	return &player{
		q: q, f: f, ring: f.mem[keyCQ], lap: f.entries,
		wr: device.SendWR{AH: ah, Payload: make([]byte, bytes), QPN: 7, QKey: 8},
	}
}

// complete writes a completion.
func (p *player) complete(e *abi.CQE) {
	e.QPN, e.AH, e.Phase = fakeQPN, uint16(p.wr.AH), p.done/p.lap%2 == 0
	at := p.done % p.lap * abi.WideCQELen
	e.Append(p.ring[at:at], abi.WideCQELen)
	p.done++
}

// send posts n packets with one doorbell, and polls their completions.
func (p *player) send(n int) bool {
	e := abi.CQE{Queue: abi.SendQueue}
	from := p.done
	for range n {
		if p.q.PostSend(&p.wr) != nil {
			return false
		}
		e.ReqID = p.q.sq.work.ReqID
		p.complete(&e)
	}
	p.q.Doorbell()
	return p.q.Poll(p.comps[:]) == n && p.done-from == n
}

// receive posts a slot and polls a packet in it.
func (p *player) receive(slot *[1]int32) bool {
	p.q.PostRecv(slot[:])
	p.complete(&abi.CQE{Queue: abi.RecvQueue, ReqID: uint64(p.q.rq.ids.id(uint16(slot[0]))), Length: 8})
	return p.q.Poll(p.comps[:]) == 1 && len(p.q.RecvBytes(int(p.comps[0].ID))) > 0
}

// TestNoAllocations: nothing on the hot path allocates.
func TestNoAllocations(t *testing.T) {
	for _, size := range []int{0, 8, 200, 8000} {
		p := newPlayer(t, size)
		slot, ok := [1]int32{3}, true
		n := testing.AllocsPerRun(2000, func() { ok = ok && p.send(16) && p.receive(&slot) })
		require.True(t, ok)
		require.Zero(t, n, "%d bytes", size)
	}
}

// BenchmarkSend is an 8-byte packet from PostSend to its completion, in memory in place of
// a card: without what a PCIe bus adds. The completion is written by the benchmark, which
// costs as much as Entry says.
func BenchmarkSend(b *testing.B) {
	p := newPlayer(b, 8)
	b.ReportAllocs()
	for b.Loop() {
		if !p.send(1) {
			b.Fatal("a send failed")
		}
	}
}

// BenchmarkSend16 is 16 packets with one doorbell.
func BenchmarkSend16(b *testing.B) {
	p := newPlayer(b, 8)
	b.ReportAllocs()
	for b.Loop() {
		if !p.send(16) {
			b.Fatal("a send failed")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/packet")
}

// BenchmarkReceive is a packet: a slot is posted with its doorbell, and the completion polled.
func BenchmarkReceive(b *testing.B) {
	p, slot := newPlayer(b, 8), [1]int32{5}
	b.ReportAllocs()
	for b.Loop() {
		if !p.receive(&slot) {
			b.Fatal("a receive failed")
		}
	}
}

// BenchmarkEntry is what writing a completion costs, which the others contain.
func BenchmarkEntry(b *testing.B) {
	p := newPlayer(b, 8)
	e := abi.CQE{Queue: abi.SendQueue, ReqID: 5}
	for b.Loop() {
		p.complete(&e)
	}
}

// BenchmarkPollNothing is a poll of an empty queue.
func BenchmarkPollNothing(b *testing.B) {
	p := newPlayer(b, 8)
	for b.Loop() {
		if p.q.Poll(p.comps[:]) != 0 {
			b.Fatal("something")
		}
	}
}
