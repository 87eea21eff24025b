package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var holdCases = []testCase{
	{name: "HoldBack", devices: 3, run: holdBack},
	{name: "HoldBack/resent", devices: 2, run: heldIsResent, needs: holdsBack},
}

func holdsBack(f *Fabric) bool { return f.Devices[0].Info().HoldsBack }

// start posts a packet that begins something.
func (n *node) start(ah device.AH, to *node, data string) uint64 {
	n.w.Helper()
	wr := n.wr(ah, to, []byte(data), nil)
	wr.Begins = true
	require.NoError(n.w, n.PostSend(wr))
	n.Doorbell()
	return wr.ID
}

// holdBack: what one sender begins is refused until it is let go; other packets of its, and
// those of others, arrive.
func holdBack(w *world) {
	a, b, c := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{}), w.open(2, device.QPConfig{})
	second := w.open(0, device.QPConfig{})
	toB, back, fromC, fromSecond := a.ah(b), b.ah(a), c.ah(b), second.ah(b)
	require.Equal(w, device.StatusOK, a.status(a.start(toB, b, "first")))
	b.recv()
	if !holdsBack(w.f) {
		require.ErrorIs(w, b.HoldBack(back, a.QPN(), true), device.ErrNotSupported)
		return
	}
	require.ErrorIs(w, b.HoldBack(back+100, a.QPN(), true), device.ErrBadAH)
	for range 2 {
		require.NoError(w, b.HoldBack(back, a.QPN(), true))
		require.NoError(w, b.HoldBack(back, a.QPN(), true))
		require.Equal(w, device.StatusRNR, a.status(a.start(toB, b, "refused")))
		require.Equal(w, device.StatusOK, a.status(a.send(toB, b, []byte("an answer"))))
		require.Equal(w, "an answer", string(b.recv().data))
		require.Equal(w, device.StatusOK, c.status(c.start(fromC, b, "of another")))
		require.Equal(w, "of another", string(b.recv().data))
		require.Equal(w, device.StatusOK, second.status(second.start(fromSecond, b, "of its neighbour")))
		require.Equal(w, "of its neighbour", string(b.recv().data))

		require.NoError(w, b.HoldBack(back, a.QPN(), false))
		require.Equal(w, device.StatusOK, a.status(a.start(toB, b, "let go")))
		require.Equal(w, "let go", string(b.recv().data))
	}
	require.NoError(w, b.HoldBack(back, a.QPN()+1, true)) // nobody
	require.Equal(w, device.StatusOK, a.status(a.start(toB, b, "last")))
	require.Empty(w, a.gone)
}

// heldIsResent: the device sends again what was refused, as if no receive had been posted.
func heldIsResent(w *world) {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.open(1, device.QPConfig{})
	to, back := a.ah(b), b.ah(a)
	require.Equal(w, device.StatusOK, a.status(a.start(to, b, "first")))
	b.recv()
	require.NoError(w, b.HoldBack(back, a.QPN(), true))
	id := a.start(to, b, "waits")
	w.idle()
	require.NotContains(w, a.sends, id)
	require.Empty(w, b.recvs)
	require.NoError(w, b.HoldBack(back, a.QPN(), false))
	require.Equal(w, device.StatusOK, a.status(id))
	require.Equal(w, "waits", string(b.recv().data))
}
