package devicetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var rightCases = []testCase{
	{name: "Rights/table", devices: 2, run: (*world).rightsTable, needs: (*Fabric).rdma},
	{name: "Windows/refused", devices: 1, run: (*world).windowsRefused},
	{name: "Windows/bytes", devices: 2, run: (*world).windowBytes, needs: (*Fabric).windows},
	{name: "Windows/returned", devices: 2, run: (*world).windowReturned, needs: (*Fabric).windows},
	{name: "Windows/region", devices: 2, run: (*world).windowRegion, needs: (*Fabric).windows},
	{name: "Windows/many", devices: 2, run: (*world).windowMany, needs: (*Fabric).windows},
	{name: "Windows/plain", devices: 2, run: (*world).windowPlain},
}

func (f *Fabric) windows() bool { return f.Devices[0].Info().Windows }

// rights is what a region of each Access allows to others: the one answer of every device,
// however the memory came to it.
var rights = []struct {
	access      device.Access
	read, write bool
}{
	{0, false, false},
	{device.LocalWrite, false, false},
	{device.RemoteRead, true, false},
	{device.LocalWrite | device.RemoteRead, true, false},
	{device.RemoteWrite, false, true},
	{device.LocalWrite | device.RemoteWrite, false, true},
	{device.RemoteRead | device.RemoteWrite, true, true},
	{device.LocalWrite | device.RemoteRead | device.RemoteWrite, true, true},
}

// ways are those by which memory comes to device 1. Memory that the device does not reach
// for others (MR.Remote) allows nothing.
func (w *world) ways(n int) map[string]func(device.Access) device.MR {
	return map[string]func(device.Access) device.MR{
		"alloc": func(a device.Access) device.MR { return w.alloc(1, n, a) },
		"register": func(a device.Access) device.MR {
			return w.owned(w.f.Devices[1].Register(make([]byte, n), a))
		},
	}
}

// rightsTable: a right to read is no right to write, the other way round, and none is none.
func (w *world) rightsTable() {
	const size = 1000
	p := newProbe(w, size)
	for name, get := range w.ways(size) {
		for _, row := range rights {
			p.mr = get(row.access)
			for _, kind := range w.kinds() {
				allowed := row.read
				if kind == device.WRWrite {
					allowed = row.write
				}
				if allowed && p.mr.Remote() {
					p.move(kind, 0, 0, size)
					continue
				}
				for _, n := range []int{0, 1, size} {
					p.refusedBad(kind, n, func(*device.SendWR) {})
				}
			}
			require.NoError(w, p.mr.Close(), "%s %v", name, row.access)
		}
	}
}

// lend makes a window of n bytes, off bytes from the start of the probe's region.
func (p *probe) lend(off, n int) uint64 {
	p.a.w.Helper()
	key, err := p.b.Lend(0, p.mr.LKey(), p.mr.Bytes()[off:off+n])
	require.NoError(p.a.w, err)
	require.NotZero(p.a.w, key)
	return key
}

// through reads n bytes, off bytes from the start of the region, by a key.
func (p *probe) through(key uint64, off, n int) device.Status {
	w := p.a.w
	w.Helper()
	p.reset()
	wr := p.a.rdma(device.WRRead, p.to, p.b, p.o.at(0, n), p.mr, 0)
	wr.RKey, wr.Remote = key, p.mr.Addr()+uint64(off)
	st := p.a.status(p.a.post(wr))
	if st == device.StatusOK {
		require.Equal(w, p.theirs[off:off+n], p.o.b[:n])
		copy(p.o.b, p.ours)
	}
	p.untouched()
	return st
}

// windowsRefused: without them, and for memory that is not in the region.
func (w *world) windowsRefused() {
	n := w.openBare(0, device.QPConfig{})
	mr := w.alloc(0, 100, device.RemoteRead)
	if !w.f.windows() {
		_, err := n.Lend(0, mr.LKey(), mr.Bytes())
		require.ErrorIs(w, err, device.ErrNotSupported)
		n.Return(0, 1)
		return
	}
	other := w.alloc(0, 100, device.RemoteRead)
	for what, c := range map[string]struct {
		key uint32
		mem []byte
	}{
		"other region": {mr.LKey(), other.Bytes()},
		"no region":    {mr.LKey(), make([]byte, 10)},
		"unknown key":  {mr.LKey() ^ 1, mr.Bytes()},
	} {
		_, err := n.Lend(0, c.key, c.mem)
		require.ErrorIs(w, err, device.ErrBadKey, what)
	}
	if local := w.owned(w.f.Devices[0].Register(make([]byte, 10), 0)); !local.Remote() {
		_, err := n.Lend(0, local.LKey(), local.Bytes())
		require.ErrorIs(w, err, device.ErrBadKey, "not in the reach of others")
	}
	require.NoError(w, other.Close())
	_, err := n.Lend(0, other.LKey(), other.Bytes())
	require.ErrorIs(w, err, device.ErrBadKey, "closed")
	key, err := n.Lend(0, mr.LKey(), mr.Bytes())
	require.NoError(w, err)
	n.Return(0, key^1)
	n.Return(0, 0)
	require.NoError(w, n.Close())
	w.drop(n)
	n.Return(0, key)
	_, err = n.Lend(0, mr.LKey(), mr.Bytes())
	require.Error(w, err)
}

// windowBytes: the key of a window reaches its bytes for reading, and nothing else; that of
// the region reaches what it did before.
func (w *world) windowBytes() {
	const size, off, n = 10_000, 3000, 2000
	p := newProbe(w, size)
	for name, get := range w.ways(size) {
		for _, row := range rights {
			if p.mr = get(row.access); !p.mr.Remote() {
				continue
			}
			key := p.lend(off, n)
			require.NotEqual(w, p.mr.RKey(), key)
			for _, c := range []struct {
				off, n int
				ok     bool
			}{
				{off, n, true},
				{off, 0, true},
				{off + n, 0, true},
				{off + 1, n - 1, true},
				{off + n - 1, 1, true},
				{off - 1, 1, false},
				{off - 1, n, false},
				{off + 1, n, false},
				{off + n, 1, false},
				{0, size, false},
				{0, 1, false},
				{size - 1, 1, false},
			} {
				want := device.StatusBadAddress
				if c.ok {
					want = device.StatusOK
				}
				require.Equal(w, want, p.through(key, c.off, c.n), "%s %v: %d bytes at %d", name, row.access, c.n, c.off)
			}
			if w.f.writes() {
				p.refusedBad(device.WRWrite, 1, func(wr *device.SendWR) { wr.RKey, wr.Remote = key, p.mr.Addr()+off })
			}
			st := p.through(p.mr.RKey(), off, n)
			require.Equal(w, row.read, st == device.StatusOK, "%s %v: by the region's own key", name, row.access)
			p.b.Return(0, key)
			require.NoError(w, p.mr.Close())
		}
	}
}

// windowReturned: a key that was returned reaches nothing, and no later window has it.
func (w *world) windowReturned() {
	const size = 1000
	p := newProbe(w, size)
	p.mr = w.alloc(1, size, 0)
	seen := map[uint64]bool{}
	for range 100 {
		key := p.lend(0, size)
		require.False(w, seen[key], "key %x twice", key)
		seen[key] = true
		require.Equal(w, device.StatusOK, p.through(key, 0, size))
		p.b.Return(0, key)
		p.b.Return(0, key)
		require.Equal(w, device.StatusBadAddress, p.through(key, 0, size))
		require.Equal(w, device.StatusBadAddress, p.through(key, 0, 0))
	}
	next := p.lend(1, size-1)
	for key := range seen {
		require.Equal(w, device.StatusBadAddress, p.through(key, 1, 1))
	}
	require.Equal(w, device.StatusOK, p.through(next, 1, 1))
}

// windowRegion: with the region its windows are closed.
func (w *world) windowRegion() {
	const size = 1000
	p := newProbe(w, size)
	gone := w.alloc(1, size, allAccess)
	p.mr = gone
	key, addr := p.lend(0, size), gone.Addr()
	require.Equal(w, device.StatusOK, p.through(key, 0, size))
	require.NoError(w, gone.Close())
	p.mr = w.alloc(1, size, 0)
	for _, at := range []uint64{addr, p.mr.Addr()} {
		p.refusedBad(device.WRRead, size, func(wr *device.SendWR) { wr.RKey, wr.Remote = key, at })
	}
	p.b.Return(0, key)
	require.Equal(w, device.StatusOK, p.through(p.lend(0, size), 0, size))
}

// windowMany: there may be a few hundred, each of its own bytes; beyond the limit there is an
// error, and what there was goes on.
func (w *world) windowMany() {
	const size, least, each = 4096, 200, 8
	p := newProbe(w, size)
	p.mr = w.alloc(1, size, 0)
	keys := []uint64{}
	for len(keys) < 1<<20 {
		key, err := p.b.Lend(0, p.mr.LKey(), p.mr.Bytes()[len(keys)*each%size:][:each])
		if err != nil {
			require.ErrorIs(w, err, device.ErrNoMemory)
			break
		}
		keys = append(keys, key)
	}
	require.Greater(w, len(keys), least, fmt.Sprint("windows of ", each, " bytes"))
	require.Less(w, len(keys), 1<<20, "no limit")
	for i, key := range keys[:least] {
		require.Equal(w, device.StatusOK, p.through(key, i*each%size, each))
		require.Equal(w, device.StatusBadAddress, p.through(key, (i+1)*each%size, each))
	}
	for _, key := range keys {
		p.b.Return(0, key)
	}
	require.Equal(w, device.StatusOK, p.through(p.lend(0, size), 0, size))
}

// windowPlain: memory in no region can be lent, and another put in its place. Nothing but its
// bytes is reached, and only for reading.
func (w *world) windowPlain() {
	const size = 3000
	var p *probe
	if info := w.f.Devices[1].Info(); info.Plain {
		p = newProbe(w, size)
	} else {
		n := w.openBare(1, device.QPConfig{})
		_, _, err := n.LendPlain(n.ah(n), n.QPN(), make([]byte, size))
		require.ErrorIs(w, err, device.ErrNotSupported)
		require.Error(w, n.Relend(0, 1, nil))
		return
	}
	mem := fill(make([]byte, size), 2)
	key, addr, err := p.b.LendPlain(p.b.ah(p.a), p.a.QPN(), mem)
	require.NoError(w, err)
	read := func(key uint64, off, n int) device.Status {
		p.reset()
		wr := p.a.rdma(device.WRRead, p.to, p.b, p.o.at(0, n), p.mr, 0)
		wr.RKey, wr.Remote = key, addr+uint64(off)
		return p.a.status(p.a.post(wr))
	}
	for _, off := range []int{0, 1, size - 1} {
		require.Equal(w, device.StatusOK, read(key, off, size-off))
		require.Equal(w, mem[off:], p.o.b[:size-off])
		require.Equal(w, device.StatusBadAddress, read(key, off+1, size-off))
	}
	require.Equal(w, device.StatusBadAddress, read(key, -1, 1))
	if w.f.writes() {
		p.refusedBad(device.WRWrite, 1, func(wr *device.SendWR) { wr.RKey, wr.Remote = key, addr })
	}
	other := fill(make([]byte, size), 3)
	require.Error(w, p.b.Relend(0, key, other[1:]), "not as long")
	require.ErrorIs(w, p.b.Relend(0, key^1, other), device.ErrBadKey)
	require.NoError(w, p.b.Relend(0, key, other))
	require.Equal(w, device.StatusOK, read(key, 0, size))
	require.Equal(w, other, p.o.b[:size])
	p.b.Return(0, key)
	require.Equal(w, device.StatusBadAddress, read(key, 0, size))
	require.ErrorIs(w, p.b.Relend(0, key, other), device.ErrBadKey)
	if p.mr.Remote() && w.f.windows() {
		inRegion := p.lend(0, size)
		require.ErrorIs(w, p.b.Relend(0, inRegion, other), device.ErrBadKey, "it lies in a region")
		p.b.Return(0, inRegion)
	}
}
