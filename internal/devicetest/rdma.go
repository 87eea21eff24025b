package devicetest

import (
	"bytes"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var rdmaCases = []testCase{
	{name: "RDMA/unsupported", devices: 2, run: (*world).rdmaUnsupported},
	{name: "RDMA/sizes", devices: 2, run: (*world).rdmaSizes, needs: (*Fabric).rdma},
	{name: "RDMA/unaligned", devices: 2, run: (*world).rdmaUnaligned, needs: (*Fabric).rdma},
	{name: "RDMA/longest", devices: 2, run: (*world).rdmaLongest, needs: (*Fabric).littleRDMA},
	{name: "RDMA/self", devices: 1, run: (*world).rdmaSelf, needs: (*Fabric).rdma},
	{name: "RDMA/registered", devices: 2, run: (*world).rdmaRegistered, needs: (*Fabric).rdma},
	{name: "RDMA/queue", devices: 2, run: (*world).rdmaQueue, needs: (*Fabric).rdma},
	{name: "RDMA/noAllocations", devices: 2, run: (*world).noRDMAAllocations, needs: (*Fabric).thriftyRDMA},
	{name: "RDMA/keys", devices: 2, run: (*world).rdmaLocalKeys, needs: (*Fabric).localKeys},
}

// littleRDMA: the longest request is short enough for a test.
func (f *Fabric) littleRDMA() bool { return f.rdma() && f.Devices[0].Info().MaxRDMA <= 16<<20 }

func (f *Fabric) localKeys() bool { return f.rdma() && f.Devices[0].Info().LocalKeys }

// rdmaUnsupported: requests that Info does not offer are refused at the post.
func (w *world) rdmaUnsupported() {
	a, b := w.open(0, device.QPConfig{SQDepth: 1}), w.open(1, device.QPConfig{})
	to, mr, o := a.ah(b), w.alloc(1, 100, allAccess), a.own(10)
	refuse := func(kind device.WR) {
		require.ErrorIs(w, a.PostSend(a.rdma(kind, to, b, o, mr, 0)), device.ErrNotSupported, "kind %d", kind)
		a.nextID--
	}
	if !w.f.reads() {
		refuse(device.WRRead)
	}
	if !w.f.writes() {
		refuse(device.WRWrite)
	}
	refuse(device.WRWrite + 1)
	refuse(0xff)
	w.idle()
	require.Empty(w, a.sends)
	require.Equal(w, make([]byte, 100), mr.Bytes())
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("the place in the queue is free"))))
}

// probe is a region of b's, and memory of a's that is as large.
type probe struct {
	a, b         *node
	to           device.AH
	o            own
	mr           device.MR
	ours, theirs []byte // what is in both before a request
}

func newProbe(w *world, size int) *probe {
	p := &probe{a: w.open(0, device.QPConfig{RNRRetry: 7}), b: w.openBare(1, device.QPConfig{QKey: 77})}
	p.to, p.o, p.mr = p.a.ah(p.b), p.a.own(size), w.alloc(1, size, allAccess)
	p.ours, p.theirs = fill(make([]byte, size), 1), fill(make([]byte, size), 2)
	return p
}

func (p *probe) reset() {
	copy(p.o.b, p.ours)
	copy(p.mr.Bytes(), p.theirs)
}

// move does one request of n bytes, from or to the offsets given, and checks that
// these bytes moved and no others, and that the other side noticed nothing.
func (p *probe) move(kind device.WR, at, off, n int) {
	w := p.a.w
	w.Helper()
	p.reset()
	id := p.a.post(p.a.rdma(kind, p.to, p.b, p.o.at(at, n), p.mr, off))
	require.Equal(w, device.StatusOK, p.a.status(id), "%d bytes", n)
	local, there := p.o.b[at:at+n], p.mr.Bytes()[off:off+n]
	require.True(w, bytes.Equal(local, there), "kind %d, %d bytes", kind, n)
	if kind == device.WRRead {
		require.True(w, bytes.Equal(local, p.theirs[off:off+n]), "kind %d, %d bytes", kind, n)
		copy(local, p.ours[at:])
	} else {
		copy(there, p.theirs[off:])
	}
	p.untouched()
}

// untouched: both memories are as reset made them, and b heard nothing.
func (p *probe) untouched() {
	w := p.a.w
	w.Helper()
	require.True(w, bytes.Equal(p.mr.Bytes(), p.theirs), "the region")
	require.True(w, bytes.Equal(p.o.b, p.ours), "our memory")
	require.Empty(w, p.b.recvs)
	require.Empty(w, p.b.landed)
}

// rdmaSizes: the other side needs no slot and no handle of ours.
func (w *world) rdmaSizes() {
	const most = 1<<20 + 1
	limit := min(most, w.f.Devices[0].Info().MaxRDMA)
	p := newProbe(w, limit)
	for _, kind := range w.kinds() {
		for _, n := range []int{0, 1, 2, 7, 8, 9, 63, 64, 65, 1000, 4095, 4096, 4097, 8192, 65535, 65536, 65537, most} {
			if n <= limit {
				p.move(kind, 0, 0, n)
				p.move(kind, limit-n, limit-n, n)
			}
		}
	}
}

func (w *world) rdmaUnaligned() {
	p := newProbe(w, 1000)
	for _, kind := range w.kinds() {
		for at := range 17 {
			p.move(kind, at, 16-at, 100+at)
			p.move(kind, 3*at, 900-at, 100+at)
		}
	}
}

// rdmaLongest: a request of MaxRDMA bytes is accepted, one of one byte more is not.
func (w *world) rdmaLongest() {
	limit := w.f.Devices[0].Info().MaxRDMA
	p := newProbe(w, limit+1)
	for _, kind := range w.kinds() {
		p.move(kind, 1, 0, limit)
		wr := p.a.rdma(kind, p.to, p.b, p.o, p.mr, 0)
		require.ErrorIs(w, p.a.PostSend(wr), device.ErrTooLong)
	}
}

// rdmaSelf: a queue pair can reach regions of its own device, also the same region
// on both sides.
func (w *world) rdmaSelf() {
	a := w.open(0, device.QPConfig{QKey: 3})
	to, mr := a.ah(a), w.alloc(0, 2000, allAccess)
	o := own{b: mr.Bytes(), key: mr.LKey()}
	for _, kind := range w.kinds() {
		fill(mr.Bytes(), 9)
		id := a.post(a.rdma(kind, to, a, o.at(0, 500), mr, 1000))
		require.Equal(w, device.StatusOK, a.status(id))
		require.Equal(w, mr.Bytes()[:500], mr.Bytes()[1000:1500])
	}
}

// rdmaRegistered: requests to the caller's own memory, if the device can reach it.
func (w *world) rdmaRegistered() {
	p := newProbe(w, 3000)
	mr := w.owned(w.f.Devices[1].Register(make([]byte, 3000), allAccess))
	for _, kind := range w.kinds() {
		if p.mr = mr; mr.Remote() {
			p.move(kind, 10, 20, 2000)
			continue
		}
		id := p.a.post(p.a.rdma(kind, p.to, p.b, p.o, mr, 0))
		require.Equal(w, device.StatusBadAddress, p.a.status(id))
	}
}

// rdmaQueue: requests take their places in the send queue, beside packets.
func (w *world) rdmaQueue() {
	a := w.open(0, device.QPConfig{SQDepth: 4, RNRRetry: 7})
	b := w.open(1, device.QPConfig{})
	to, mr, o := a.ah(b), w.alloc(1, 1000, allAccess), a.own(1000)
	kinds := w.kinds()
	for range 20 {
		for i := range 3 {
			a.post(a.rdma(kinds[i%len(kinds)], to, b, o.at(i*100, 100), mr, i*100))
		}
		a.send(to, b, []byte("packet"))
		require.ErrorIs(w, a.PostSend(a.rdma(kinds[0], to, b, o, mr, 0)), device.ErrQueueFull)
		require.ErrorIs(w, a.PostSend(a.wr(to, b, nil, nil)), device.ErrQueueFull)
		a.nextID -= 2
		w.until("completions", func() bool { return len(a.sends) == int(a.nextID) })
		b.recv()
	}
	require.ErrorIs(w, a.PostSend(a.rdma(kinds[0], to+1, b, o, mr, 0)), device.ErrBadAH)
	for id, st := range a.sends {
		require.Equal(w, device.StatusOK, st, "request %d", id)
	}
}

// rdmaLocalKeys: the local side must lie in the region that it names, with the
// right to be written to if the request writes it.
func (w *world) rdmaLocalKeys() {
	p := newProbe(w, 1000)
	readOnly := w.allocOwn(0, 1000, 0)
	other := w.allocOwn(0, 1000, device.LocalWrite)
	closed := w.allocOwn(0, 1000, device.LocalWrite)
	key := closed.LKey()
	require.NoError(w, closed.Close())
	for _, kind := range w.kinds() {
		for _, o := range []own{
			{b: p.o.b},                    // none
			{b: p.o.b, key: p.o.key ^ 1},  // no region's
			{b: p.o.b, key: other.LKey()}, // another's
			{b: p.o.b, key: key},          // closed
			{b: make([]byte, 8), key: p.o.key},
		} {
			p.reset()
			id := p.a.post(p.a.rdma(kind, p.to, p.b, o, p.mr, 0))
			require.Equal(w, device.StatusInvalidLKey, p.a.status(id))
			p.untouched()
		}
		id := p.a.post(p.a.rdma(kind, p.to, p.b, own{b: readOnly.Bytes(), key: readOnly.LKey()}, p.mr, 0))
		if kind == device.WRRead {
			require.Equal(w, device.StatusInvalidLKey, p.a.status(id))
		} else {
			require.Equal(w, device.StatusOK, p.a.status(id))
		}
	}
	require.Equal(w, make([]byte, 1000), readOnly.Bytes())
}
