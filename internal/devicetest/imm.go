package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var immCases = []testCase{
	{name: "Immediate/message", devices: 2, run: (*world).immMessage},
	{name: "Immediate/write", devices: 2, run: (*world).immWrite, needs: (*Fabric).writes},
	{name: "Immediate/slot", devices: 2, run: (*world).immSlot, needs: (*Fabric).solicited},
	{name: "Immediate/RNR", devices: 2, run: (*world).immRNR, needs: (*Fabric).solicited},
	{name: "Immediate/cured", devices: 2, run: (*world).immCured, needs: (*Fabric).solicited},
	{name: "Immediate/unsolicited", devices: 2, run: (*world).immUnsolicited, needs: (*Fabric).unsolicited},
	{name: "Immediate/wakes", devices: 2, run: (*world).immWakes, needs: (*Fabric).writes},
}

// immMessage: a packet delivers its immediate, also when it was sent again, and one
// without immediate delivers none.
func (w *world) immMessage() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	b := w.openBare(1, device.QPConfig{})
	to := a.ah(b)
	for i, imm := range []uint32{0, 1, 0xdeadbeef, 0xffffffff} {
		wr := a.wr(to, b, []byte("head"), []byte("body"))
		wr.HasImm, wr.Imm = true, imm
		id := a.post(wr)
		if i == 0 {
			w.idle()
			b.postAll()
		}
		p := b.recv()
		require.True(w, p.HasImm)
		require.Equal(w, imm, p.Imm)
		require.Equal(w, "headbody", string(p.data))
		require.Equal(w, device.StatusOK, a.status(id))
		a.send(to, b, []byte("plain"))
		require.False(w, b.recv().HasImm)
	}
}

// landing holds a write with immediate and its target.
type landing struct {
	a, b *node
	to   device.AH
	src  own
	mr   device.MR
}

func newLanding(w *world, retries uint8, bare bool) *landing {
	l := &landing{a: w.open(0, device.QPConfig{RNRRetry: retries, SQDepth: 32})}
	if bare {
		l.b = w.openBare(1, device.QPConfig{RQDepth: 4, QKey: 8})
	} else {
		l.b = w.open(1, device.QPConfig{RQDepth: 4, QKey: 8})
	}
	l.to = l.a.ah(l.b)
	l.src = l.a.own(1000)
	fill(l.src.b, 5)
	l.mr = w.alloc(1, 4000, canWrite)
	return l
}

// put posts a write of size bytes with immediate.
func (l *landing) put(size int, imm uint32) uint64 {
	l.a.w.Helper()
	wr := l.a.rdma(device.WRWrite, l.to, l.b, l.src.at(0, size), l.mr, 7)
	wr.HasImm, wr.Imm = true, imm
	return l.a.post(wr)
}

// immWrite: the receiver is notified of a write when all of it is in place, and by
// whom.
func (w *world) immWrite() {
	l := newLanding(w, 7, false)
	for i, size := range []int{0, 1, 999, 1000} {
		clear(l.mr.Bytes())
		id := l.put(size, uint32(i)*0x01010101)
		c := l.b.write()
		require.True(w, sameAs(l.mr.Bytes()[7:7+size], 5, 1000))
		require.Equal(w, size, c.Len)
		require.True(w, c.HasImm)
		require.Equal(w, uint32(i)*0x01010101, c.Imm)
		require.Equal(w, l.a.QPN(), c.SrcQPN)
		require.Equal(w, device.UnknownAH, c.AH)
		require.Equal(w, w.f.Hardware, c.SrcGID != l.a.gid)
		require.Equal(w, device.StatusOK, l.a.status(id))
	}
	back := l.b.ah(l.a)
	l.put(10, 1)
	require.Equal(w, back, l.b.write().AH)
	require.Empty(w, l.b.recvs)
}

// immSlot: the slot is the reader's again, and can be posted at once.
func (w *world) immSlot() {
	l := newLanding(w, 0, true)
	l.b.keep = true
	l.b.PostRecv([]int32{2})
	require.Equal(w, device.StatusOK, l.a.status(l.put(10, 1)))
	require.Equal(w, uint64(2), l.b.write().ID)
	require.Equal(w, device.StatusRNR, l.a.status(l.a.send(l.to, l.b, []byte("no slot"))))
	l.b.PostRecv([]int32{2, 0})
	got := map[uint64]bool{}
	require.Equal(w, device.StatusOK, l.a.status(l.put(10, 2)))
	got[l.b.write().ID] = true
	require.Equal(w, device.StatusOK, l.a.status(l.a.send(l.to, l.b, []byte("slot"))))
	got[l.b.recv().ID] = true
	require.Equal(w, map[uint64]bool{0: true, 2: true}, got)
}

// immRNR: with nothing posted a write with immediate ends as a send does; one
// without, or one that is refused, needs nothing posted.
func (w *world) immRNR() {
	for _, retries := range []uint8{0, 2} {
		l := newLanding(w, retries, true)
		require.Equal(w, device.StatusRNR, l.a.status(l.put(100, 1)))
		wr := l.a.rdma(device.WRWrite, l.to, l.b, l.src, l.mr, 0)
		require.Equal(w, device.StatusOK, l.a.status(l.a.post(wr)))
		require.True(w, sameAs(l.mr.Bytes()[:1000], 5, 1000))
		require.Empty(w, l.b.landed)
		l.b.postAll()
		require.Equal(w, device.StatusOK, l.a.status(l.put(100, 2)))
		require.Equal(w, uint32(2), l.b.write().Imm)
		w.idle()
		require.Empty(w, l.b.landed)
	}
}

// immCured: writes wait for slots as packets do, and are carried out from memory
// that still belongs to the device.
func (w *world) immCured() {
	l := newLanding(w, 7, true)
	l.b.keep = true
	for i := range uint32(12) {
		l.put(100, i)
	}
	w.idle()
	require.Empty(w, l.a.sends)
	require.ErrorIs(w, newFullQueue(l), device.ErrQueueFull)
	l.b.postAll()
	seen := map[uint32]bool{}
	for len(seen) < 12 {
		c := l.b.write()
		require.False(w, seen[c.Imm])
		seen[c.Imm] = true
		l.b.PostRecv([]int32{int32(c.ID)})
	}
	require.True(w, sameAs(l.mr.Bytes()[7:107], 5, 1000))
	w.until("completions", func() bool { return len(l.a.sends) == int(l.a.nextID) })
	for id, st := range l.a.sends {
		require.Equal(w, device.StatusOK, st, "write %d", id)
	}
}

// newFullQueue fills the rest of the send queue with writes.
func newFullQueue(l *landing) error {
	defer l.a.Doorbell()
	for {
		wr := l.a.rdma(device.WRWrite, l.to, l.b, l.src.at(0, 1), l.mr, 3999)
		if err := l.a.PostSend(wr); err != nil {
			l.a.nextID--
			return err
		}
	}
}

// immUnsolicited: writes take no slot, so that packets have them all.
func (w *world) immUnsolicited() {
	l := newLanding(w, 7, true)
	for i := range uint32(50) {
		id := l.put(int(i), i)
		c := l.b.write()
		require.Equal(w, device.NoSlot, c.ID)
		require.Equal(w, i, c.Imm)
		require.Equal(w, device.StatusOK, l.a.status(id))
	}
	// Many that are not polled: they are queued, and none is lost.
	w.drop(l.b)
	for i := range uint32(20) {
		l.put(4, i)
	}
	w.idle()
	w.nodes = append(w.nodes, l.b)
	seen := map[uint32]bool{}
	for range 20 {
		seen[l.b.write().Imm] = true
	}
	require.Len(w, seen, 20)
	w.until("completions", func() bool { return len(l.a.sends) == int(l.a.nextID) })
	l.b.postAll()
	for range 4 {
		require.Equal(w, device.StatusOK, l.a.status(l.a.send(l.to, l.b, []byte("x"))))
		l.b.recv()
	}
}

// immWakes: a write with immediate wakes a sleeper.
func (w *world) immWakes() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	b := w.openSleeper(1, device.QPConfig{})
	to, src, mr := a.ah(b.n), a.own(8), w.alloc(1, 8, canWrite)
	for i := range uint32(10) {
		w.until("arm", func() bool {
			a.poll()
			return b.n.Arm()
		})
		wr := a.rdma(device.WRWrite, to, b.n, src, mr, 0)
		wr.HasImm, wr.Imm = true, i
		id := a.post(wr)
		w.nodes = []*node{a} // b sleeps
		if len(b.n.FDs()) == 0 {
			w.until("notification", func() bool { return b.calls.Load() == int64(i)+1 })
		}
		require.NoError(w, b.sleep())
		require.Equal(w, device.StatusOK, a.status(id))
		w.nodes = []*node{a, b.n}
		require.Equal(w, i, b.n.write().Imm)
	}
}
