package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

func TestSendInline(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{})
	at := b.buffer(77, 100)
	wqe := a.to(b, inline(5, []byte("hello")))
	wqe.HasImm, wqe.Imm = true, 0xcafebabe
	a.post(wqe)
	w.run()

	assert.Equal(t, abi.CQE{ReqID: 5, Phase: true, Queue: abi.SendQueue, QPN: a.qp.Number()}, a.one())
	assert.Equal(t, abi.CQE{
		ReqID: 77, Phase: true, Queue: abi.RecvQueue, QPN: b.qp.Number(), HasImm: true, Imm: 0xcafebabe,
		Length: 5, AH: abi.UnknownAH, SrcQPN: a.qp.Number(), GID: a.gid,
	}, b.one())
	assert.Equal(t, "hello", string(b.bytes(at, 5)))
	w.clean()
}

// The sender is named by its address handle once there is one, whether or not the
// queue pair has sent through it.
func TestSenderIsKnown(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{})
	first, err := b.pd.CreateAH(device.GID{1})
	require.NoError(t, err)
	ah := b.ah(a.gid)
	assert.NotEqual(t, first.Number(), ah)
	for i := range 2 {
		b.buffer(1, 10)
		a.post(a.to(b, inline(1, nil)))
		w.run()
		got := b.one()
		assert.Equal(t, ah, got.AH)
		assert.Zero(t, got.GID)
		if i == 0 { // b sends to a and has a handle of the device from then on
			a.buffer(1, 10)
			b.post(b.to(a, inline(1, nil)))
			w.run()
			b.poll()
		}
	}
	w.clean()
}

func TestNoGIDUnlessAsked(t *testing.T) {
	for _, c := range []progConfig{{noSGID: true}, {cqe: 16}} {
		w, a, b := pair(t, options{}, c)
		b.buffer(1, 10)
		a.post(a.to(b, inline(1, []byte("x"))))
		w.run()
		got := b.one()
		assert.Equal(t, uint16(abi.UnknownAH), got.AH)
		assert.Zero(t, got.GID)
		w.clean()
	}
}

func TestSendGathersAndScatters(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{})
	data := pattern(8000, 3)
	x, y := a.alloc(data[:5001]), a.alloc(data[5001:])
	p, q := b.alloc(make([]byte, 3000)), b.alloc(make([]byte, 6000))
	b.recv(9, b.sge(p, 3000), b.sge(q, 6000))
	wqe := send(1)
	wqe.Length, wqe.SGE = 2, [2]abi.SGE{a.sge(x, 5001), a.sge(y, 2999)}
	a.post(a.to(b, wqe))
	w.run()
	assert.Zero(t, a.one().Status)
	got := b.one()
	assert.Equal(t, uint64(9), got.ReqID)
	assert.Equal(t, uint32(8000), got.Length)
	assert.Equal(t, data, append(append([]byte(nil), b.bytes(p, 3000)...), b.bytes(q, 5000)...))
	assert.Zero(t, b.bytes(q, 6000)[5000], "no more than the packet has")
	w.clean()
}

// Empty packets, as nothing, as an empty SGE, and into nothing.
func TestEmptyPackets(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{})
	empty := send(2)
	empty.Length, empty.SGE[0] = 1, abi.SGE{LKey: 0xbad}
	for i, wqe := range []abi.WQE{inline(0, nil), send(1), empty} {
		b.recv(uint16(i), abi.SGE{})
		a.post(a.to(b, wqe))
		w.run()
		assert.Zero(t, a.one().Status)
		got := b.one()
		assert.Equal(t, uint64(i), got.ReqID)
		assert.Zero(t, got.Status)
		assert.Zero(t, got.Length)
	}
	w.clean()
}

// Every ring wraps around often, each kind of entry, and with all sizes; phases are
// checked by both sides.
func TestRingsWrap(t *testing.T) {
	for _, c := range []progConfig{
		{sq: 4, rq: 4, cq: 8, cqe: 16},
		{sq: 4, rq: 4, cq: 8, cqe: 32, wide: true},
		{sq: 2, rq: 8, cq: 16, subs: 2},
		{sq: 1, rq: 1, cq: 2, sges: 1},
	} {
		w, a, b := pair(t, options{}, c)
		at := b.alloc(make([]byte, 64))
		for i := range 500 {
			if c.rq > 2 && i%3 == 0 {
				b.recv(uint16(i), b.sge(at, 4), b.sge(at+4, 60))
			} else {
				b.recv(uint16(i), b.sge(at, 64))
			}
			a.post(a.to(b, inline(uint16(i), pattern(20, i))))
			w.run()
			sent, got := a.one(), b.one()
			require.Equal(t, uint64(i), sent.ReqID)
			require.Equal(t, uint64(i), got.ReqID)
			require.Equal(t, pattern(20, i), b.bytes(at, 20))
		}
		w.clean()
	}
}

// A batch as large as the ring, from which as many packets come as there are
// receives for.
func TestFullRing(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{sq: 32, rq: 32})
	for round := range 5 {
		for i := range 32 {
			b.buffer(uint16(i), 16)
			a.write(a.to(b, inline(uint16(i), pattern(16, i))))
		}
		a.post()
		w.run()
		require.Len(t, a.poll(), 32, "round %d", round)
		require.Len(t, b.poll(), 32)
	}
	w.clean()
}

func TestWideInline(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{wide: true})
	at := b.buffer(1, 100)
	a.post(a.to(b, inline(1, pattern(80, 1))))
	w.run()
	assert.Zero(t, a.one().Status)
	assert.Equal(t, uint32(80), b.one().Length)
	assert.Equal(t, pattern(80, 1), b.bytes(at, 80))
	w.clean()
}

// The device has less room than the program's queue: requests wait, and none is
// lost.
func TestDeviceQueueFull(t *testing.T) {
	o := options{}
	o.sim.MaxSQ, o.sim.MaxRQ, o.sim.Virtual = 3, 5, true
	w, a, b := pair(t, o, progConfig{sq: 64, rq: 64, cq: 128})
	for i := range 64 {
		b.buffer(uint16(i), 16)
		a.write(a.to(b, inline(uint16(i), pattern(16, i))))
	}
	a.post()
	w.run()
	ids := map[uint64]bool{}
	for _, c := range a.poll() {
		assert.Zero(t, c.Status)
		ids[c.ReqID] = true
	}
	assert.Len(t, ids, 64)
	assert.Len(t, b.poll(), 64)
	w.clean()
}

// One card with several programs, on one GID: they reach each other, and a program
// reaches itself.
func TestOneCard(t *testing.T) {
	w := newWorld(t, options{})
	e := w.engine(options{})
	var ps []*prog
	for range 3 {
		p := w.newProg(e, progConfig{})
		p.gid = w.gids[0]
		ps = append(ps, p)
	}
	for _, p := range ps {
		for _, q := range ps {
			at := q.buffer(1, 10)
			p.post(p.to(q, inline(1, []byte("abc"))))
			w.run()
			assert.Equal(t, "abc", string(q.bytes(at, 3)))
			p.poll()
			q.poll()
		}
	}
	w.clean()
	for _, p := range ps {
		p.close()
	}
	s := e.Stats()
	assert.Equal(t, []int{0, 0, 0, 0, 0}, []int{s.PDs, s.MRs, s.AHs, s.CQs, s.QueuePairs})
	assert.Equal(t, uint64(9), s.Sent[abi.WorkSend][device.StatusOK])
	assert.Equal(t, uint64(9), s.Received[abi.WorkSend][device.StatusOK])
	assert.Equal(t, uint64(18), s.Completions(device.StatusOK))
	assert.Equal(t, uint64(27), s.SentBytes)
	assert.Equal(t, uint64(27), s.ReceivedBytes)
}
