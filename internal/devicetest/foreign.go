package devicetest

import (
	"os"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// foreignCases are for devices with Info.Foreign: the general rules for regions with
// memory of another process, and the particular ones.
func foreignCases() []testCase {
	cases := []testCase{
		{name: "Foreign/region", devices: 1, run: (*world).foreignRegion},
		{name: "Foreign/own", devices: 2, run: (*world).foreignOwn},
		{name: "Foreign/unmapped", devices: 2, run: (*world).foreignUnmapped},
		{name: "Foreign/protected", devices: 2, run: (*world).foreignProtected},
		{name: "Foreign/dead", devices: 2, run: (*world).foreignDead},
		{name: "Foreign/dying", devices: 3, run: (*world).foreignDying, needs: (*Fabric).reads},
	}
	for _, c := range slices.Concat(immCases, rdmaCases, rdmaRefusalCases, rightCases[:1], rdmaLoadCases, rdmaEndCases) {
		run := c.run
		c.name = "Foreign/" + c.name
		c.run = func(w *world) {
			w.startLender()
			run(w)
		}
		cases = append(cases, c)
	}
	for i := range cases {
		needs := cases[i].needs
		cases[i].needs = func(f *Fabric) bool { return f.foreign() && (needs == nil || needs(f)) }
	}
	return cases
}

func (f *Fabric) foreign() bool {
	return f.Devices[0].Info().Foreign && f.rdma()
}

// foreignRegion: a region is as requested, and invalid requests are refused.
func (w *world) foreignRegion() {
	l := w.startLender()
	f := w.f.Devices[0]
	for _, n := range []int{1, 100, 4096, 100_000} {
		for _, addr := range []uint64{l.base, l.base + 1, l.base + 4095} {
			mr := w.owned(f.RegisterForeign(l.pid(), addr, n, canRead))
			require.Nil(w, mr.Bytes())
			require.Equal(w, addr, mr.Addr())
			require.True(w, mr.Remote())
			require.NotZero(w, mr.RKey())
			require.Equal(w, mr.LKey(), uint32(mr.RKey()))
			require.Error(w, w.f.Devices[0].Close())
			require.NoError(w, mr.Close())
			require.ErrorIs(w, mr.Close(), device.ErrClosed)
		}
	}
	pid := l.pid()
	for _, c := range []struct {
		pid  int
		addr uint64
		n    int
		a    device.Access
	}{
		{pid, l.base, 0, canRead},
		{pid, l.base, -1, canRead},
		{pid, l.base, 1 << 62, canRead},
		{pid, l.base, 100, 0x80},
		{pid, 0, 100, canRead},
		{pid, ^uint64(0) - 98, 100, canRead},
		{0, l.base, 100, canRead},
		{-1, l.base, 100, canRead},
		{1<<31 - 1, l.base, 100, canRead},
		{1<<31 + pid, l.base, 100, canRead},
		{1<<32 + pid, l.base, 100, canRead},
	} {
		mr, err := f.RegisterForeign(c.pid, c.addr, c.n, c.a)
		require.Error(w, err, "%+v", c)
		require.Nil(w, mr)
	}
	l.kill()
	_, err := f.RegisterForeign(pid, l.base, 100, canRead)
	require.Error(w, err, "it has ended")
	require.NoError(w, w.f.Devices[0].Close())
	_, err = f.RegisterForeign(os.Getpid(), l.base, 100, canRead)
	require.ErrorIs(w, err, device.ErrClosed)
}

// foreignOwn: the process may be the requesting one.
func (w *world) foreignOwn() {
	p := newProbe(w, 5000)
	mem := make([]byte, 5000)
	mr := w.owned(w.f.Devices[1].RegisterForeign(os.Getpid(), addressOf(mem), len(mem), allAccess))
	require.Nil(w, mr.Bytes())
	p.mr = &lent{mr, mem}
	for _, kind := range w.kinds() {
		p.move(kind, 10, 20, 4000)
	}
}

// lentProbe is a probe whose region is another process's memory.
func (w *world) lentProbe(size int) (*probe, *lender) {
	l := w.startLender()
	return newProbe(w, size), l
}

// foreignUnmapped: unmapped memory ends the requests for it.
func (w *world) foreignUnmapped() {
	const size, part = 3 * lenderPage, lenderPage
	p, l := w.lentProbe(size)
	l.do(w, p.mr, wish{Unmap: true, Off: part, Len: part})
	for _, kind := range w.kinds() {
		for _, c := range []struct{ off, n int }{
			{part, 1}, {part, part}, {2*part - 1, 1}, {2*part - 1, 2}, {part - 1, 2}, {0, 2 * part}, {part - 8, part + 16},
		} {
			id := p.a.post(p.a.rdma(kind, p.to, p.b, p.o.at(0, c.n), p.mr, c.off))
			require.Equal(w, device.StatusBadAddress, p.a.status(id), "kind %d, %+v", kind, c)
		}
		p.move(kind, 0, 0, part)
		p.move(kind, 0, 2*part, part)
	}
}

// foreignProtected: the process's own rights count as well.
func (w *world) foreignProtected() {
	p, l := w.lentProbe(lenderPage)
	l.do(w, p.mr, wish{Protect: true, Len: lenderPage})
	for _, kind := range w.kinds() {
		if kind == device.WRRead {
			p.move(kind, 0, 0, 1000)
			continue
		}
		p.refusedBad(kind, 1000, func(*device.SendWR) {})
	}
}

// foreignDead: the end of the process ends neither the device that has its memory,
// nor the region.
func (w *world) foreignDead() {
	p, l := w.lentProbe(1000)
	kinds := w.kinds()
	p.move(kinds[0], 0, 0, 1000)
	late := w.alloc(1, 1000, allAccess)
	l.kill()
	for range 2 {
		for _, kind := range kinds {
			for _, mr := range []device.MR{p.mr, late} {
				p.reset()
				id := p.a.post(p.a.rdma(kind, p.to, p.b, p.o, mr, 0))
				require.Equal(w, device.StatusBadAddress, p.a.status(id))
				p.untouched()
			}
		}
	}
	p.b.postAll()
	require.Equal(w, device.StatusOK, p.a.status(p.a.send(p.to, p.b, []byte("alive"))))
	require.Equal(w, "alive", string(p.b.recv().data))
	require.NoError(w, p.mr.Close())
	require.NoError(w, late.Close())
	w.lender = nil
	p.mr = w.alloc(1, 1000, allAccess)
	p.move(kinds[0], 0, 0, 1000)
}

// killer kills the lender after a number of looks.
type killer struct {
	*node
	l     *lender
	looks int
}

func (k *killer) finished() bool { return k.looks >= 50 }
func (k *killer) String() string { return "the killer" }

func (k *killer) step() error {
	k.poll()
	if k.looks++; k.looks == 50 {
		k.l.kill()
	}
	return nil
}

// foreignDying kills the process in the middle of reads: each ends, with the right
// bytes or with a status.
func (w *world) foreignDying() {
	const size = 50_000
	for range 5 {
		l := w.startLender()
		host := w.open(2, device.QPConfig{})
		w.drop(host)
		mr := w.alloc(2, size, canRead)
		whole := fill(make([]byte, size), 3)
		copy(mr.Bytes(), whole)
		workers := []worker{&killer{node: host, l: l}}
		for i := range 4 {
			r := w.reader(i/2, 1<<40, host, mr, whole)
			r.mayEnd = true
			w.drop(r.node)
			workers = append(workers, r)
		}
		w.drive(workers)
	}
}
