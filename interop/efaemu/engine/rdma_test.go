package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// Sizes around the packet's, the piece's and its multiples.
func TestRDMA(t *testing.T) {
	for _, maxRDMA := range []int{0, 100, 1 << 12} {
		o := options{}
		o.dev.MaxRDMA = maxRDMA
		o.profile = func(p *profile.Profile) { p.MaxRDMA = 1 << 30 } // independent of the device's maximum
		w, a, b := pair(t, o, progConfig{memory: 4 << 20})
		for _, n := range []int{0, 1, 99, 100, 101, 250, 8760, 8761, 1 << 18, 1<<18 + 1, 1<<20 + 5} {
			if maxRDMA == 100 && n > 1<<14 {
				continue
			}
			copy(b.mem.mem, pattern(n, 1))
			a.post(rdma(a, b, abi.WorkRead, a.mem.base()+100, n))
			require.Equal(t, device.StatusOK, a.status(), "read of %d", n)
			require.Equal(t, pattern(n, 1), a.mem.mem[100:100+n])

			copy(a.mem.mem, pattern(n, 2))
			a.post(rdma(a, b, abi.WorkWrite, a.mem.base(), n))
			require.Equal(t, device.StatusOK, a.status(), "write of %d", n)
			require.Equal(t, pattern(n, 2), b.mem.mem[:n])
			require.Empty(t, b.poll())
		}
		w.clean()
	}
}

// A write with immediate is reported once, with all its bytes in place, and takes a
// receive, unless it is unsolicited.
func TestWriteWithImmediate(t *testing.T) {
	for _, unsolicited := range []bool{false, true} {
		for _, fabric := range []bool{false, true} { // whether it takes none, too
			o := options{}
			o.dev.MaxRDMA, o.dev.UnsolicitedWrite = 1000, fabric
			w, a, b := pair(t, o, progConfig{unsolicited: unsolicited})
			if !unsolicited || !fabric {
				b.buffer(40, 10)
			}
			copy(a.mem.mem, pattern(70000, 2))
			wqe := rdma(a, b, abi.WorkWrite, a.mem.base(), 70000)
			wqe.HasImm, wqe.Imm = true, 77
			a.post(wqe)
			w.run()
			require.Equal(t, abi.CQE{ReqID: 1, Phase: true, Queue: abi.SendQueue, Op: abi.WorkWrite, QPN: a.qp.Number()}, a.one())
			want := abi.CQE{
				Phase: true, Queue: abi.RecvQueue, Op: abi.WorkWrite, QPN: b.qp.Number(), HasImm: true, Imm: 77,
				Unsolicited: unsolicited, Length: 70000, AH: abi.UnknownAH, SrcQPN: a.qp.Number(), // of all pieces
			}
			if !unsolicited {
				want.ReqID = 40
			}
			assert.Equal(t, want, b.one())
			assert.Equal(t, pattern(70000, 2), b.mem.mem[:70000])

			// Again: one that was unsolicited has left the receive alone, for another
			// it is gone, and where the fabric takes none it waits.
			a.post(wqe)
			w.run()
			sent, came := a.one(), b.poll()
			switch {
			case unsolicited:
				assert.Zero(t, sent.Status)
				assert.Len(t, came, 1)
			case !fabric:
				assert.Equal(t, device.StatusRNR, device.Status(sent.Status))
				assert.Empty(t, came)
			default:
				assert.Zero(t, sent.Status)
				assert.Empty(t, came)
				b.buffer(41, 10)
				w.run()
				assert.Equal(t, uint64(41), b.one().ReqID)
			}
			w.clean()
		}
	}
}

// Requests take turns: a small one is not behind a large one.
func TestPiecesAreFair(t *testing.T) {
	o := options{}
	o.dev.MaxRDMA = 1000
	w, a, b := pair(t, o, progConfig{})
	for i, n := range []int{500_000, 5_000, 100_000} {
		wqe := rdma(a, b, abi.WorkRead, a.mem.base(), n)
		wqe.ReqID = uint64(i)
		a.post(wqe)
	}
	w.run()
	var order []uint64
	for _, c := range a.poll() {
		order = append(order, c.ReqID)
	}
	assert.Equal(t, []uint64{1, 2, 0}, order)
	assert.Equal(t, uint64(605), a.e.Stats().Pieces)
	w.clean()
}

// A region that is closed while pieces are under way ends the request.
func TestRegionClosedMeanwhile(t *testing.T) {
	for _, local := range []bool{false, true} {
		o := options{}
		o.dev.MaxRDMA = 1000
		w, a, b := pair(t, o, progConfig{})
		a.post(rdma(a, b, abi.WorkRead, a.mem.base(), 100_000))
		a.e.Step()
		want := device.StatusBadAddress
		if local {
			a.mr.Close()
			want = device.StatusInvalidLKey
		} else {
			b.mr.Close()
			b.mr.Close()
		}
		before := a.mem.dma
		require.Equal(t, want, a.status())
		if local {
			assert.Equal(t, before, a.mem.dma, "no transfer into it")
			assert.Equal(t, []string{"wqe-lkey"}, w.rules())
		}
		w.clean()
	}
}

// Rights of regions, as the profile lets them be.
func TestRemoteRights(t *testing.T) {
	for _, tt := range []struct {
		name        string
		access      device.Access
		profile     func(*profile.Profile)
		bare        bool
		read, write device.Status
	}{
		{"all", device.LocalWrite | device.RemoteRead | device.RemoteWrite, nil, false, 0, 0},
		{"none", device.LocalWrite, nil, false, device.StatusBadAddress, device.StatusBadAddress},
		{"read", device.LocalWrite | device.RemoteRead, nil, false, 0, device.StatusBadAddress},
		{"write", device.LocalWrite | device.RemoteWrite, nil, false, device.StatusBadAddress, 0},
		{
			"no write in the profile", device.LocalWrite | device.RemoteRead | device.RemoteWrite,
			func(p *profile.Profile) { p.RDMAWrite = false }, false, 0, device.StatusUnsupportedOp,
		},
		{
			"no RDMA in the profile", device.LocalWrite | device.RemoteRead | device.RemoteWrite,
			func(p *profile.Profile) { p.RDMAWrite, p.RDMARead = false, false }, false,
			device.StatusUnsupportedOp, device.StatusUnsupportedOp,
		},
		{"not into programs", device.LocalWrite | device.RemoteRead, nil, true, device.StatusBadAddress, device.StatusBadAddress},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, a, b := pair(t, options{profile: tt.profile, bare: tt.bare}, progConfig{access: tt.access})
			other, err := b.pd.Register(b.mem.base(), 100, b.mem.base(), device.LocalWrite)
			require.NoError(t, err)
			assert.NotEqual(t, other.RKey(), b.mr.RKey(), "libraries have tables of them")
			for op, want := range map[abi.WorkOp]device.Status{abi.WorkRead: tt.read, abi.WorkWrite: tt.write} {
				a.post(rdma(a, b, op, a.mem.base(), 8))
				assert.Equal(t, want, a.status(), "op %d", op)
			}
		})
	}
}

// An iova that is not the address holds for the local side.
func TestIOVA(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{})
	m, err := a.pd.Register(a.mem.base()+4096, 100, 4096, 0)
	require.NoError(t, err)
	copy(a.mem.mem[4096+50:], "hello")
	at := b.buffer(1, 10)
	a.post(piece(a, b, abi.SGE{Length: 5, LKey: m.LKey(), Addr: 4096 + 50}))
	require.Equal(t, device.StatusOK, a.status())
	assert.Equal(t, "hello", string(b.bytes(at, 5)))
	for _, r := range [][3]uint64{{0, 0, 0}, {1 << 63, 1 << 63, 0}, {0, 1 << 62, 3 << 62}, {4096, 1 << 63, 0}} {
		_, err := a.pd.Register(r[0], r[1], r[2], 0)
		assert.Error(t, err, "%v", r)
	}
	w.clean()
}

// Inline data of a write.
func TestWriteInline(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{wide: true})
	wqe := rdma(a, b, abi.WorkWrite, 0, 0)
	wqe.Inline, wqe.Length, wqe.Data, wqe.Remote.Length = true, 70, pattern(70, 9), 70
	a.post(wqe)
	require.Equal(t, device.StatusOK, a.status())
	assert.Equal(t, pattern(70, 9), b.mem.mem[:70])
	w.clean()
}

// On a virtual fabric requests pass and overtake each other; many at once use up the
// engine's buffers, and all end.
func TestManyRequests(t *testing.T) {
	o := options{sim: sim.Config{Virtual: true, Seed: 3}}
	w := newWorld(t, o)
	e := w.engine(o)
	a := w.newProg(e, progConfig{sq: 64, cq: 128, memory: 1 << 20})
	d, err := w.fab.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true})
	require.NoError(t, err)
	mem := pattern(1<<20, 5)
	mr, err := d.Register(mem, device.RemoteRead|device.LocalWrite)
	require.NoError(t, err)
	q, err := d.OpenQP(device.QPConfig{QKey: 1})
	require.NoError(t, err)
	const n = 300_000 // two pieces
	for i := range 64 {
		a.post(abi.WQE{
			ReqID: uint64(i), Op: abi.WorkRead, Length: 1, AH: a.ah(d.Info().GID), DestQPN: q.QPN(), QKey: 1,
			SGE:    [2]abi.SGE{a.sge(a.mem.base()+uint64(i), n)},
			Remote: abi.RemoteAddr{Length: n, RKey: uint32(mr.RKey()), Addr: mr.Addr() + uint64(i)},
		})
	}
	w.run()
	ids := map[uint64]bool{}
	for _, c := range a.poll() {
		assert.Zero(t, c.Status)
		ids[c.ReqID] = true
	}
	assert.Len(t, ids, 64)
	assert.Equal(t, mem[:n], a.mem.mem[:n])
	w.clean()
}

// Writes that wait for a receive for ever keep their buffers, but not those of others.
func TestWaitingWritesStarveNobody(t *testing.T) {
	w := newWorld(t, options{})
	e := w.engine(options{})
	a := w.newProg(e, progConfig{sq: 64, rnr: 7})
	b, c := w.newProg(e, progConfig{}), w.newProg(e, progConfig{})
	for _, p := range []*prog{a, b, c} {
		p.gid = w.gids[0]
	}
	for i := range 40 {
		wqe := rdma(a, b, abi.WorkWrite, a.mem.base(), 20_000)
		wqe.ReqID, wqe.HasImm = uint64(i), true
		a.post(wqe)
	}
	for range 100 {
		e.Step()
	}
	c.post(rdma(c, b, abi.WorkRead, c.mem.base(), 20_000))
	for range 100 {
		e.Step()
		w.fab.Step()
	}
	require.Len(t, c.poll(), 1)
	for i := range 40 {
		b.buffer(uint16(i), 1)
		w.later(time.Millisecond)
		_ = b.poll()
	}
	assert.Len(t, a.poll(), 40)
	a.close()
	w.clean()
}

// The number of an address handle may soon mean another GID: the rest of a request
// that was posted for the old one doesn't go there.
func TestHandleReusedMeanwhile(t *testing.T) {
	o := options{}
	o.dev.MaxRDMA = 1000
	w, a, b := pair(t, o, progConfig{})
	h, err := a.pd.CreateAH(b.gid)
	require.NoError(t, err)
	a.post(abi.WQE{
		Op: abi.WorkRead, Length: 1, AH: h.Number(), DestQPN: b.qp.Number(), QKey: b.qkey,
		SGE:    [2]abi.SGE{a.sge(a.mem.base(), 100_000)},
		Remote: abi.RemoteAddr{Length: 100_000, RKey: b.mr.RKey(), Addr: b.mem.base()},
	})
	a.e.Step()
	h.Close()
	other, err := a.pd.CreateAH(device.GID{1})
	require.NoError(t, err)
	require.Equal(t, h.Number(), other.Number())
	assert.Equal(t, device.StatusInvalidAH, a.status())
	w.clean()
}
