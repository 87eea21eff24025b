package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// Others reach a queue pair from RTR on, until it fails or is closed, and see then
// that it isn't there. It sends in RTS.
func TestStates(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{lazy: true})
	b.start()
	try := func() device.Status {
		b.post(b.to(a, inline(1, nil)))
		return b.status()
	}
	require.Equal(t, device.StatusBadDestQPN, try(), "RESET")
	require.ErrorIs(t, a.qp.Receive(), engine.ErrConfig)
	require.ErrorIs(t, a.qp.Send(0), engine.ErrConfig)
	a.qp.Init(1)
	a.qp.Init(a.qkey) // another Q_Key
	a.buffer(7, 10)
	require.Equal(t, device.StatusBadDestQPN, try(), "INIT")
	require.ErrorIs(t, a.qp.Send(0), engine.ErrConfig)
	require.NoError(t, a.qp.Receive())
	w.run()
	require.Equal(t, device.StatusOK, try(), "RTR")
	require.Equal(t, uint64(7), a.one().ReqID)
	require.NoError(t, a.qp.Send(0))
	require.Equal(t, device.StatusRNR, try(), "RTS")
	a.qp.Fail()
	require.Equal(t, device.StatusBadDestQPN, try(), "ERR")
	a.qp.Fail()
	a.qp.Close()
	a.qp.Close()
	a.qp.Fail()
	require.Equal(t, device.StatusBadDestQPN, try(), "closed")
	w.clean()
}

// All requests that are posted, and all later ones, are flushed; earlier arrivals
// are delivered.
func TestFailFlushes(t *testing.T) {
	o := options{sim: sim.Config{Virtual: true}, engine: engine.Config{Shuffle: engine.Shuffle{Window: 16}}}
	w, a, b := pair(t, o, progConfig{sq: 16, rq: 16})
	for i := range 5 {
		a.buffer(uint16(100+i), 10)
	}
	b.post(b.to(a, inline(1, []byte("x"))))
	for range 100 {
		b.e.Step()
		w.fab.Step()
	}
	a.e.Step() // it came
	for i := range 10 {
		a.post(a.to(b, inline(uint16(i), nil)))
		if i%3 == 0 {
			a.e.Step() // some have gone
		}
	}
	a.e.Step()
	a.write(a.to(b, inline(10, nil))) // its doorbell is not seen before the failure
	bell(a.cfg.SQDoorbell, abi.WorkDoorbell(uint16(a.spc)))
	a.qp.Fail()
	a.buffer(105, 10)
	w.run()

	flushed := map[uint64]int{}
	for _, c := range a.poll() {
		if c.Queue == abi.RecvQueue && c.ReqID == 100 {
			assert.Zero(t, c.Status, "it had come")
			continue
		}
		assert.Equal(t, device.StatusFlushed, device.Status(c.Status))
		flushed[c.ReqID]++
	}
	for i := range uint64(11) {
		assert.Equal(t, 1, flushed[i], "request %d", i)
	}
	for i := range uint64(5) {
		assert.Equal(t, 1, flushed[101+i], "receive %d", 101+i)
	}
	assert.Len(t, flushed, 16)
	w.clean()
}

// After Close nothing completes and no memory is touched, with any requests in
// progress.
func TestCloseLeavesAllAlone(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		o := options{sim: sim.Config{Virtual: virtual}}
		o.dev.MaxRDMA = 1000
		w, a, b := pair(t, o, progConfig{rnr: 7})
		a.buffer(1, 10)
		a.post(a.to(b, inline(1, nil)), rdma(a, b, abi.WorkRead, a.mem.base(), 100_000), a.to(b, inline(2, nil)))
		a.e.Step()
		a.post(a.to(b, inline(3, nil)))
		a.qp.Close()
		before := a.mem.dma
		for i := range a.cfg.SQ {
			a.cfg.SQ[i] = 0xff
		}
		b.buffer(1, 10)
		b.post(b.to(a, inline(1, nil)))
		w.run()
		assert.Empty(t, a.poll())
		assert.Equal(t, before, a.mem.dma)
		assert.Equal(t, device.StatusBadDestQPN, device.Status(b.poll()[0].Status))
		a.cq.Close()
		a.mr.Close()
		a.pd.Close()
		a.pd.Close()
		s := a.e.Stats()
		assert.Zero(t, s.QueuePairs+s.CQs+s.MRs+s.AHs+s.PDs)
		w.clean()
	}
}

// A queue pair that was reset counts from 0 again, with the phase that its library
// had.
func TestReset(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{})
	for i := range 13 { // the second lap
		b.buffer(uint16(i), 10)
		a.post(a.to(b, inline(uint16(i), nil)))
		w.run()
	}
	a.poll()
	b.poll()
	a.buffer(5, 10)
	a.qp.Reset()
	w.run()
	require.Empty(t, a.poll())
	require.Equal(t, uint32(0), uint32(a.cfg.SQDoorbell[0]))
	lap := a.spc / 8
	a.spc, a.rpc = 8*lap, 0
	a.qkey++
	a.start()
	b.buffer(1, 10)
	a.write(a.to(b, inline(1, nil)))
	at := a.write(a.to(b, inline(2, nil)))
	require.NotNil(t, at)
	bell(a.cfg.SQDoorbell, 2)
	w.run()
	require.Len(t, a.poll(), 2)
	require.Len(t, b.poll(), 1)
	a.buffer(9, 10)
	b.post(b.to(a, inline(1, nil)))
	w.run()
	require.Equal(t, uint64(9), a.one().ReqID)
	w.clean()
}

// Numbers: the lowest free one at once again, or another; never two with the same
// low bits, by which libraries find their queue pairs.
func TestNumbers(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		o := options{profile: func(p *profile.Profile) { p.QPNReuse, p.MaxQP = reuse, 6 }}
		w := newWorld(t, o)
		e := w.engine(o)
		d, err := w.fab.OpenDevice(sim.DeviceConfig{GID: w.gids[0]})
		require.NoError(t, err)
		taken, err := d.OpenQP(device.QPConfig{QPN: 2}) // another one's on this fabric
		require.NoError(t, err)
		var ps []*prog
		for range 6 {
			ps = append(ps, w.newProg(e, progConfig{}))
		}
		low := map[uint16]bool{}
		for _, p := range ps {
			low[p.qp.Number()&7] = true
			assert.NotEqual(t, taken.QPN(), p.qp.Number())
		}
		assert.Len(t, low, 6)
		_, err = e.NewQP(ps[0].cfg)
		require.ErrorIs(t, err, device.ErrNoMemory)

		// Endpoints that start again.
		for range 20 {
			old := ps[2].qp.Number()
			ps[2].close()
			ps[2] = w.newProg(e, progConfig{})
			if reuse {
				require.Equal(t, old, ps[2].qp.Number())
			} else {
				require.NotEqual(t, old, ps[2].qp.Number())
			}
		}
		w.clean()
	}
}

// A queue pair keeps its number while it isn't in RTR, and reports if the number
// was taken meanwhile.
func TestNumberIsTaken(t *testing.T) {
	w := newWorld(t, options{})
	var p *prog
	d, err := w.fab.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	thief := &thief{Device: d}
	e := w.engine(options{engine: engine.Config{Device: thief}})
	p = w.newProg(e, progConfig{lazy: true})
	p.qp.Init(1)
	_, err = d.OpenQP(device.QPConfig{QPN: p.qp.Number()})
	require.ErrorIs(t, err, device.ErrQPNInUse)
	thief.ready = true
	require.ErrorIs(t, p.qp.Receive(), device.ErrQPNInUse)
	w.run()
	require.NoError(t, thief.loot.Close())
	require.NoError(t, p.qp.Receive())
	p.close()
	require.NoError(t, d.Close(), "nothing is left")
}

// thief takes a number once it is free for a moment.
type thief struct {
	device.Device
	ready bool
	loot  device.QP
}

func (d *thief) OpenQP(c device.QPConfig) (device.QP, error) {
	if d.ready && d.loot == nil {
		d.loot, _ = d.Device.OpenQP(device.QPConfig{QPN: c.QPN})
	}
	return d.Device.OpenQP(c)
}

// Limits of the profile.
func TestLimits(t *testing.T) {
	o := options{profile: func(p *profile.Profile) { p.MaxMR, p.MaxAH = 3, 2 }}
	_, a, _ := pair(t, o, progConfig{})
	var mrs []*engine.MR
	for range 2 { // and that of all its memory
		m, err := a.pd.Register(a.mem.base(), 8, a.mem.base(), 0)
		require.NoError(t, err)
		mrs = append(mrs, m)
	}
	_, err := a.pd.Register(a.mem.base(), 8, a.mem.base(), 0)
	require.ErrorIs(t, err, device.ErrNoMemory)
	mrs[0].Close()
	m, err := a.pd.Register(a.mem.base(), 8, a.mem.base(), 0)
	require.NoError(t, err)
	assert.NotEqual(t, mrs[0].LKey(), m.LKey(), "a stale key names nothing")
	assert.Less(t, m.LKey(), uint32(1<<24))

	one, err := a.pd.CreateAH(device.GID{1})
	require.NoError(t, err)
	again, err := a.pd.CreateAH(device.GID{1})
	require.NoError(t, err)
	assert.Equal(t, one.Number(), again.Number())
	two, err := a.pd.CreateAH(device.GID{2})
	require.NoError(t, err)
	assert.Less(t, two.Number(), uint16(2))
	_, err = a.pd.CreateAH(device.GID{3})
	require.ErrorIs(t, err, device.ErrNoMemory)
	one.Close()
	_, err = a.pd.CreateAH(device.GID{3})
	require.ErrorIs(t, err, device.ErrNoMemory, "one use is left")
	again.Close()
	three, err := a.pd.CreateAH(device.GID{3})
	require.NoError(t, err)
	assert.Equal(t, one.Number(), three.Number())
	a.pd.Close()
	two.Close() // it is gone already
	_, err = a.pd.CreateAH(device.GID{1})
	require.ErrorIs(t, err, engine.ErrConfig)
	_, err = a.pd.Register(a.mem.base(), 8, a.mem.base(), 0)
	require.ErrorIs(t, err, engine.ErrConfig)
}

// A program whose memory is gone before its files has its queue pairs closed at the
// first transfer.
func TestProgramIsGone(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(w *world, a, b *prog)
	}{
		{"receive", func(_ *world, a, b *prog) {
			a.buffer(1, 10)
			a.mem.gone.Store(true)
			b.post(b.to(a, inline(1, []byte("x"))))
		}},
		{"send", func(_ *world, a, b *prog) {
			a.mem.gone.Store(true)
			a.post(piece(a, b, a.sge(a.mem.base(), 5)), a.to(b, inline(1, nil)))
		}},
		{"write", func(_ *world, a, b *prog) {
			a.mem.gone.Store(true)
			a.post(rdma(a, b, abi.WorkWrite, a.mem.base(), 100), a.to(b, inline(1, nil)))
		}},
		{"read", func(_ *world, a, b *prog) {
			a.mem.gone.Store(true)
			a.post(rdma(a, b, abi.WorkRead, a.mem.base(), 100), a.to(b, inline(1, nil)))
		}},
		{"failing", func(_ *world, a, b *prog) {
			a.buffer(1, 10)
			b.post(b.to(a, inline(1, []byte("x"))))
			b.e.Step()
			a.mem.gone.Store(true)
			a.qp.Fail()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, a, b := pair(t, options{}, progConfig{})
			b.buffer(1, 10)
			tt.do(w, a, b)
			w.run()
			b.poll()
			before := a.mem.dma
			b.post(b.to(a, inline(2, nil)))
			require.Equal(t, device.StatusBadDestQPN, b.status())
			assert.Equal(t, before, a.mem.dma)
			a.close()
			w.clean()
		})
	}
}

// A program that is gone while another process has its files is noticed, though
// nothing is transferred: its number may become another process's.
func TestGoneIsNoticed(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{})
	other := w.newProg(b.e, progConfig{})
	other.gid = b.gid
	b.mem.gone.Store(true)
	w.later(60 * time.Millisecond)
	b.mem.gone.Store(false) // another's, now
	dma := b.mem.dma
	a.post(a.to(b, inline(1, nil)))
	assert.Equal(t, device.StatusBadDestQPN, a.status())
	assert.Equal(t, dma, b.mem.dma)
	other.buffer(1, 10)
	a.post(a.to(other, inline(2, nil)))
	assert.Equal(t, device.StatusOK, a.status())
	w.clean()
}
