package engine_test

import (
	"slices"
	"testing"
	"time"

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

// A device has fewer receives than a program may post, and many may send at once:
// nobody meets RNR while the program has receives.
func TestReceivesForAll(t *testing.T) {
	for _, datagram := range []bool{false, true} {
		const senders, each = 12, 64
		w := newWorld(t, options{})
		e := w.engine(options{})
		b := w.newProg(e, progConfig{rq: 1024, cq: 1024, datagram: datagram})
		b.gid = w.gids[0]
		for i := range 1024 {
			b.desc(abi.RxDesc{
				Addr: b.mem.base(), ReqID: uint16(i), Length: 100, LKey: b.mr.LKey(), First: true, Last: true,
			})
		}
		var all []*prog
		for i := range senders {
			a := w.newProg(e, progConfig{sq: each, cq: each, memory: 1 << 12, datagram: datagram})
			a.gid = b.gid
			for k := range each {
				wqe := a.to(b, inline(uint16(k), []byte{byte(i), byte(k)}))
				if k == 1 && !datagram {
					wqe = rdma(a, b, abi.WorkWrite, a.mem.base(), 50)
					wqe.ReqID, wqe.HasImm = 1, true
				}
				a.write(wqe)
			}
			all = append(all, a)
		}
		b.ringRQ()
		for _, a := range all {
			a.post()
		}
		w.run()
		for _, a := range all {
			got := a.poll()
			require.Len(t, got, each)
			for _, c := range got {
				require.Equal(t, device.StatusOK, device.Status(c.Status))
			}
		}
		assert.Len(t, b.poll(), senders*each)
		for _, a := range all { // and one more than there are
			a.post(slices.Repeat([]abi.WQE{a.to(b, inline(0, nil))}, each)...)
		}
		w.run()
		assert.Len(t, b.poll(), 1024-senders*each)
		w.clean()
	}
}

// A program that is gone while somebody else has its files is noticed, though nothing
// is transferred: its number may become another process's.
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
