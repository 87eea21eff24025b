package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var rdmaRefusalCases = []testCase{
	{name: "RDMARefused/key", devices: 2, run: (*world).refusedKey, needs: (*Fabric).rdma},
	{name: "RDMARefused/range", devices: 2, run: (*world).refusedRange, needs: (*Fabric).rdma},
	{name: "RDMARefused/closed", devices: 2, run: (*world).refusedClosed, needs: (*Fabric).rdma},
	{name: "RDMARefused/reported", devices: 2, run: (*world).refusedReported, needs: (*Fabric).rdma},
	{name: "RDMARefused/destination", devices: 2, run: (*world).refusedDestination, needs: (*Fabric).rdma},
}

// refuse posts a request of n bytes with a change and expects it to end with st,
// nothing to have moved, and the region to be as good as before.
func (p *probe) refuse(kind device.WR, st device.Status, n int, change func(*device.SendWR)) {
	w := p.a.w
	w.Helper()
	p.reset()
	wr := p.a.rdma(kind, p.to, p.b, p.o.at(0, n), p.mr, 0)
	change(wr)
	require.Equal(w, st, p.a.status(p.a.post(wr)))
	p.untouched()
}

// refusedBad is refuse with StatusBadAddress.
func (p *probe) refusedBad(kind device.WR, n int, change func(*device.SendWR)) {
	p.a.w.Helper()
	p.refuse(kind, device.StatusBadAddress, n, change)
}

func (w *world) refusedKey() {
	p := newProbe(w, 1000)
	mine := w.alloc(0, 1000, allAccess) // a region of the requester's device
	for _, kind := range w.kinds() {
		for _, key := range []uint64{0, 1, p.mr.RKey() ^ 1, p.mr.RKey() ^ 1<<31, ^p.mr.RKey(), mine.RKey()} {
			p.refusedBad(kind, 1000, func(wr *device.SendWR) { wr.RKey = key })
		}
		p.move(kind, 0, 0, 1000)
	}
}

func (w *world) refusedRange() {
	const size = 1000
	p := newProbe(w, size)
	base := p.mr.Addr()
	for _, kind := range w.kinds() {
		for _, c := range []struct {
			addr uint64
			n    int
		}{
			{base - 1, 1},
			{base - 1, 2},
			{base - 1, size},
			{base - 500, size},
			{base + size, 1},
			{base + size - 1, 2},
			{base + 1, size},
			{base + size + 1, 0},
			{base + size + 1, 1},
			{base - 1, 0},
			{0, 1},
			{0, size},
			{^uint64(0), 1},
			{^uint64(0), 2},
			{^uint64(0) - size + 1, size},
			{base + 1<<32, 1},
			{base + 1<<63, 1},
		} {
			p.refusedBad(kind, c.n, func(wr *device.SendWR) { wr.Remote = c.addr })
		}
		p.move(kind, 0, size, 0)
		p.move(kind, 0, 0, size)
	}
}

// refusedClosed: the key of a closed region reaches nothing, though another region
// may lie in the same memory.
func (w *world) refusedClosed() {
	for range 20 {
		p := newProbe(w, 1000)
		gone := w.alloc(1, 1000, allAccess)
		key, addr := gone.RKey(), gone.Addr()
		require.NoError(w, gone.Close())
		p.mr = w.alloc(1, 1000, allAccess)
		for _, kind := range w.kinds() {
			p.refusedBad(kind, 100, func(wr *device.SendWR) { wr.RKey = key })
			p.refusedBad(kind, 100, func(wr *device.SendWR) { wr.RKey, wr.Remote = key, addr })
			p.move(kind, 0, 0, 1000)
		}
	}
}

// refusedReported: a software device reports refused requests to its own side.
func (w *world) refusedReported() {
	if !w.f.ReportsRefused {
		p := newProbe(w, 10)
		p.refusedBad(w.kinds()[0], 10, func(wr *device.SendWR) { wr.RKey++ })
		w.idle()
		require.Empty(w, p.b.denied)
		return
	}
	p := newProbe(w, 1000)
	for _, kind := range w.kinds() {
		for _, known := range []bool{false, true} {
			p.b.denied = nil
			want := device.Completion{Op: device.OpRefused, AH: device.UnknownAH, SrcQPN: p.a.QPN(), SrcGID: p.a.gid, ID: p.mr.RKey() + 1, Status: device.RefusalOf(false)}
			if known {
				want.AH, want.SrcGID = p.b.ah(p.a), device.GID{}
			}
			p.refusedBad(kind, 10, func(wr *device.SendWR) { wr.RKey++ })
			w.until("report", func() bool { return len(p.b.denied) > 0 })
			require.Equal(w, []device.Completion{want}, p.b.denied)
			if known {
				require.NoError(w, p.b.DestroyAH(want.AH))
			}
		}
	}
	// A key that is known is no guess, nor is one that was known until now.
	gone := w.alloc(1, 100, allAccess)
	key := gone.RKey()
	require.NoError(w, gone.Close())
	for _, of := range []uint64{p.mr.RKey(), key} {
		p.b.denied = nil
		p.refusedBad(w.kinds()[0], 10, func(wr *device.SendWR) { wr.RKey, wr.Remote = of, wr.Remote+5000 })
		w.until("report", func() bool { return len(p.b.denied) > 0 })
		require.Equal(w, device.RefusalOf(true), p.b.denied[0].Status)
	}
	// Reports that are not fetched do no harm.
	w.drop(p.b)
	for range 3 * p.b.RecvSlots() {
		p.refusedBad(w.kinds()[0], 1, func(wr *device.SendWR) { wr.RKey++ })
	}
	w.nodes = append(w.nodes, p.b)
	p.move(w.kinds()[0], 0, 0, 1000)
}

// refusedDestination: RDMA to a queue pair that is not there, or under another
// Q_Key, ends as a packet does.
func (w *world) refusedDestination() {
	p := newProbe(w, 1000)
	nobody := p.b.gid
	nobody[15] ^= 0x55
	nobody[8] ^= 0x55
	lost, err := p.a.CreateAH(nobody)
	require.NoError(w, err)
	for _, kind := range w.kinds() {
		for _, key := range []uint32{0, 78, 0xffffffff} {
			p.refuse(kind, device.StatusBadDestQPN, 100, func(wr *device.SendWR) { wr.QKey = key })
		}
		p.refuse(kind, device.StatusBadDestQPN, 100, func(wr *device.SendWR) { wr.QPN += 100 })
		wr := p.a.rdma(kind, lost, p.b, p.o, p.mr, 0)
		st := p.a.status(p.a.post(wr))
		require.True(w, st.Gone(), st.String())
		p.move(kind, 0, 0, 1000)
	}
	require.NoError(w, p.b.Close())
	w.drop(p.b)
	for _, kind := range w.kinds() {
		wr := p.a.rdma(kind, p.to, p.b, p.o, p.mr, 0)
		st := p.a.status(p.a.post(wr))
		require.True(w, st.Gone(), st.String())
	}
}
