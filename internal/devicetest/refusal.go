package devicetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var refusalCases = []testCase{
	{name: "WrongQKey", devices: 2, run: (*world).wrongQKey},
	{name: "UnknownQPN", devices: 2, run: (*world).unknownQPN},
	{name: "QPNReused", devices: 2, run: (*world).qpnReused, needs: (*Fabric).software},
}

// refused sends with a changed request and expects that no queue pair gets it.
func (w *world) refused(a, b *node, to device.AH, change func(*device.SendWR)) {
	w.Helper()
	wr := a.wr(to, b, []byte("secret"), nil)
	change(wr)
	require.NoError(w, a.PostSend(wr))
	a.Doorbell()
	require.Equal(w, device.StatusBadDestQPN, a.status(wr.ID))
	w.idle()
	require.Empty(w, b.recvs)
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("fine"))), "still usable")
	require.Equal(w, "fine", string(b.recv().data))
}

func (w *world) wrongQKey() {
	a, b := w.open(0, device.QPConfig{QKey: 5, RNRRetry: 7}), w.open(1, device.QPConfig{QKey: 0x11223344})
	to := a.ah(b)
	for _, key := range []uint32{0, 5, 0x11223345, 0xffffffff} {
		w.refused(a, b, to, func(wr *device.SendWR) { wr.QKey = key })
	}
}

func (w *world) unknownQPN() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.open(1, device.QPConfig{})
	to := a.ah(b)
	for _, qpn := range []uint16{0, b.QPN() + 100, 0xffff} {
		w.refused(a, b, to, func(wr *device.SendWR) { wr.QPN = qpn })
	}
}

// qpnReused: a new queue pair under an old number refuses packets for the old one,
// and is reached under its own Q_Key through the same handle.
func (w *world) qpnReused() {
	a := w.open(0, device.QPConfig{RNRRetry: 3})
	b := w.open(1, device.QPConfig{QPN: 20099, QKey: 1})
	to := a.ah(b)
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("first"))))
	require.Equal(w, "first", string(b.recv().data))
	require.NoError(w, b.Close())
	w.nodes = slices.DeleteFunc(w.nodes, func(n *node) bool { return n == b })
	require.Equal(w, device.StatusBadDestQPN, a.status(a.send(to, b, []byte("closed"))))

	c := w.open(1, device.QPConfig{QPN: 20099, QKey: 2})
	w.refused(a, c, to, func(wr *device.SendWR) { wr.QKey = 1 })
}
