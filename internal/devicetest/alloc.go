package devicetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var allocCases = []testCase{
	{name: "NoAllocations", devices: 2, run: (*world).noAllocations, needs: (*Fabric).thrifty},
}

// relay sends packets to a receiver and back into its posted slots, and does
// nothing else that costs time.
type relay struct {
	f     *Fabric
	a, b  device.QP
	wr    device.SendWR
	comps [16]device.Completion
	slots [16]int32
}

func newRelay(w *world, size int) *relay {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.open(1, device.QPConfig{QKey: 4})
	to := a.ah(b)
	b.ah(a)
	wr := *a.wr(to, b, make([]byte, min(size, 8)), make([]byte, max(size-8, 0)))
	return &relay{f: w.f, a: a.QP, b: b.QP, wr: wr}
}

// round is one packet from PostSend to both completions and the slot posted
// again. False: something went wrong.
func (r *relay) round() bool {
	if r.a.PostSend(&r.wr) != nil {
		return false
	}
	r.a.Doorbell()
	sent, got := 0, 0
	for sent == 0 || got == 0 {
		if r.f.Progress != nil {
			r.f.Progress()
		}
		if n := r.b.Poll(r.comps[:]); n > 0 {
			for i := range n {
				r.slots[i] = int32(r.comps[i].ID)
			}
			r.b.PostRecv(r.slots[:n])
			got += n
		}
		n := r.a.Poll(r.comps[:])
		for i := range n {
			if r.comps[i].Status != device.StatusOK {
				return false
			}
		}
		sent += n
	}
	return sent == 1 && got == 1
}

func (w *world) noAllocations() {
	for _, size := range []int{0, 8, w.f.Devices[0].Info().MTU} {
		r := newRelay(w, size)
		for range 1000 { // pools fill
			require.True(w, r.round())
		}
		ok := true
		avg := testing.AllocsPerRun(500, func() { ok = r.round() && ok })
		require.True(w, ok)
		require.Zero(w, avg, "allocations of a packet of %d bytes", size)
	}
}

func (w *world) noRDMAAllocations() {
	p := newProbe(w, 9000)
	for _, kind := range w.kinds() {
		for _, size := range []int{0, 8, 9000} {
			wr := p.a.rdma(kind, p.to, p.b, p.o.at(0, size), p.mr, 0)
			ok := true
			round := func() { ok = p.round(wr) && ok }
			for range 1000 {
				round()
			}
			avg := testing.AllocsPerRun(500, round)
			require.True(w, ok)
			require.Zero(w, avg, "allocations of kind %d with %d bytes", kind, size)
		}
	}
}

// round is one request from PostSend to its completion. False: something went wrong.
func (p *probe) round(wr *device.SendWR) bool {
	if p.a.PostSend(wr) != nil {
		return false
	}
	p.a.Doorbell()
	for {
		if p.a.w.f.Progress != nil {
			p.a.w.f.Progress()
		}
		if n := p.a.Poll(p.a.comps[:]); n > 0 {
			return n == 1 && p.a.comps[0].Status == device.StatusOK
		}
		p.b.Poll(p.b.comps[:])
	}
}

// Benchmark measures 8 bytes from PostSend until both sides polled and the slot
// was posted again, all in the benchmark's goroutine.
func Benchmark(b *testing.B, factory Factory) {
	w := &world{TB: b, f: factory(b, 2), ctx: b.Context()}
	r := newRelay(w, 8)
	b.ReportAllocs()
	for b.Loop() {
		if !r.round() {
			b.Fatal("a send failed")
		}
	}
}
