package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

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
		w.later(1e6)
		_ = b.poll()
	}
	assert.Len(t, a.poll(), 40)
	a.close()
	w.clean()
}

// The number of an address handle may soon mean somebody else: what is left of a
// request that was posted for the one before doesn't go there.
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
