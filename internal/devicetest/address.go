package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var addressCases = []testCase{
	{name: "AHCounted", devices: 3, run: (*world).ahCounted, needs: (*Fabric).manyGIDs},
	{name: "AHReused", devices: 3, run: (*world).ahReused, needs: (*Fabric).manyGIDs},
	{name: "AHOfAnother", devices: 3, run: (*world).ahOfAnother, needs: (*Fabric).manyGIDs},
	{name: "AHNumbersLast", devices: 2, run: (*world).ahNumbersLast},
	{name: "BadAH", devices: 2, run: (*world).badAH},
	{name: "UnknownSender", devices: 2, run: (*world).unknownSender},
	{name: "GIDUnknown", devices: 1, run: (*world).gidUnknown},
	{name: "QPNs", devices: 1, run: (*world).qpns, needs: (*Fabric).software},
	{name: "QPNs/chosen", devices: 1, run: (*world).qpnsChosen, needs: func(f *Fabric) bool { return f.Hardware }},
}

func (w *world) ahCounted() {
	a, b, c := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{}), w.open(2, device.QPConfig{})
	toB := a.ah(b)
	require.Equal(w, toB, a.ah(b), "the same GID, the same handle")
	toC := a.ah(c)
	require.NotEqual(w, toB, toC)
	require.NoError(w, a.DestroyAH(toB))
	require.Equal(w, device.StatusOK, a.status(a.send(toB, b, []byte("still"))))
	require.Equal(w, "still", string(b.recv().data))
	require.NoError(w, a.DestroyAH(toB))
	require.ErrorIs(w, a.PostSend(a.wr(toB, b, nil, nil)), device.ErrBadAH)
	require.ErrorIs(w, a.DestroyAH(toB), device.ErrBadAH)
	a.nextID--
	require.Equal(w, device.StatusOK, a.status(a.send(toC, c, []byte("c"))))
	require.Equal(w, "c", string(c.recv().data))
	again := a.ah(b)
	require.NotEqual(w, toC, again)
	require.Equal(w, device.StatusOK, a.status(a.send(again, b, []byte("again"))))
	require.Equal(w, "again", string(b.recv().data))
}

// ahReused: a number that means another GID now leads there and nowhere else.
func (w *world) ahReused() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	b, c := w.open(1, device.QPConfig{QPN: 20501}), w.open(2, device.QPConfig{QPN: 20502})
	old := a.ah(b)
	require.Equal(w, device.StatusOK, a.status(a.send(old, b, []byte("b"))))
	require.Equal(w, "b", string(b.recv().data))
	require.NoError(w, a.DestroyAH(old))
	toC := a.ah(c)
	toB := a.ah(b)
	require.NotEqual(w, toC, toB)
	for range 2 {
		st := a.status(a.send(toC, b, []byte("nobody")))
		require.True(w, st.Gone(), st.String())
		require.Equal(w, device.StatusOK, a.status(a.send(toC, c, []byte("c"))))
		require.Equal(w, "c", string(c.recv().data))
		require.Equal(w, device.StatusOK, a.status(a.send(toB, b, []byte("b"))))
		require.Equal(w, "b", string(b.recv().data))
	}
	w.idle()
	require.Empty(w, b.recvs)
}

// ahOfAnother: a queue pair is not reached by another GID than its own, for packets
// and RDMA.
func (w *world) ahOfAnother() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	b, c := w.open(1, device.QPConfig{QPN: 20501}), w.open(2, device.QPConfig{QPN: 20502})
	mr, o := w.alloc(1, 100, allAccess), a.own(100)
	toB, toC := a.ah(b), a.ah(c)
	for range 2 {
		require.Equal(w, device.StatusBadDestQPN, a.status(a.send(toC, b, []byte("b, but there"))))
		require.Equal(w, device.StatusBadDestQPN, a.status(a.send(toB, c, []byte("c, but there"))))
		for _, kind := range w.kinds() {
			require.Equal(w, device.StatusBadDestQPN, a.status(a.post(a.rdma(kind, toC, b, o, mr, 0))))
			require.Equal(w, device.StatusOK, a.status(a.post(a.rdma(kind, toB, b, o, mr, 0))))
		}
		require.Equal(w, device.StatusOK, a.status(a.send(toB, b, []byte("b"))))
		require.Equal(w, "b", string(b.recv().data))
	}
	w.idle()
	require.Empty(w, b.recvs)
	require.Empty(w, c.recvs)
}

// ahNumbersLast makes and destroys more handles than there are numbers.
func (w *world) ahNumbersLast() {
	a, b := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{})
	times := 70_000
	if w.f.Hardware { // the numbers are the card's
		times = 1000
	}
	for i := range times {
		ah, err := a.CreateAH(b.gid)
		if err != nil || ah == device.UnknownAH {
			w.Fatalf("handle %d: %v, %v", i, ah, err)
		}
		if err := a.DestroyAH(ah); err != nil {
			w.Fatalf("handle %d: %v", i, err)
		}
	}
	require.Equal(w, device.StatusOK, a.status(a.send(a.ah(b), b, []byte("x"))))
}

func (w *world) badAH() {
	a, b := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{})
	for _, ah := range []device.AH{0, 1, 0x7fff, device.UnknownAH} {
		require.ErrorIs(w, a.PostSend(a.wr(ah, b, nil, nil)), device.ErrBadAH)
		require.ErrorIs(w, a.DestroyAH(ah), device.ErrBadAH)
	}
	w.idle()
	require.Empty(w, a.sends)
	require.Empty(w, b.recvs)
}

// unknownSender: the sender that a receive shows depends on the receiver's handles.
func (w *world) unknownSender() {
	a, b := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{})
	to := a.ah(b)
	get := func() packet {
		require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("who?"))))
		p := b.recv()
		require.Equal(w, a.QPN(), p.SrcQPN)
		return p
	}
	p := get()
	require.Equal(w, device.UnknownAH, p.AH)
	require.Equal(w, a.gid, p.SrcGID)
	back := b.ah(a)
	require.Equal(w, back, get().AH)
	require.Equal(w, back, get().AH)
	require.NoError(w, b.DestroyAH(back))
	p = get()
	require.Equal(w, device.UnknownAH, p.AH)
	require.Equal(w, a.gid, p.SrcGID)
}

// gidUnknown: a handle for an unknown GID can be made; sends to it end.
func (w *world) gidUnknown() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	nobody := a.gid
	nobody[15] ^= 0x55
	nobody[8] ^= 0x55
	ah, err := a.CreateAH(nobody)
	require.NoError(w, err)
	id := a.send(ah, a, []byte("hello?"))
	st := a.status(id)
	require.True(w, st.Gone(), st.String())
	require.Equal(w, device.StatusOK, a.status(a.send(a.ah(a), a, []byte("usable"))))
}

func (w *world) qpns() {
	d := w.f.Devices[0]
	a := w.open(0, device.QPConfig{QPN: 1234})
	require.Equal(w, uint16(1234), a.QPN())
	_, err := d.OpenQP(device.QPConfig{QPN: 1234})
	require.ErrorIs(w, err, device.ErrQPNInUse)
	seen := map[uint16]bool{1234: true}
	for range 10 {
		n := w.open(0, device.QPConfig{RQDepth: 1})
		require.NotZero(w, n.QPN())
		require.False(w, seen[n.QPN()])
		seen[n.QPN()] = true
	}
	require.NoError(w, a.Close())
	w.nodes = w.nodes[1:]
	again := w.open(0, device.QPConfig{QPN: 1234})
	require.Equal(w, uint16(1234), again.QPN())
}

// qpnsChosen: a card chooses numbers itself, and refuses others.
func (w *world) qpnsChosen() {
	qp, err := w.f.Devices[0].OpenQP(device.QPConfig{QPN: 1234})
	require.ErrorIs(w, err, device.ErrNotSupported)
	require.Nil(w, qp)
	seen := map[uint16]bool{}
	for range 10 {
		n := w.open(0, device.QPConfig{RQDepth: 1})
		require.False(w, seen[n.QPN()])
		seen[n.QPN()] = true
	}
}
