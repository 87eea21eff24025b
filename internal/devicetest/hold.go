package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var holdCases = []testCase{
	{name: "HoldBack", devices: 3, run: (*world).holdBack},
	{name: "Shut", devices: 3, run: (*world).shutOut},
	{name: "HoldBack/resent", devices: 2, run: (*world).heldIsResent, needs: (*Fabric).holdsBack},
}

func (f *Fabric) holdsBack() bool { return f.Devices[0].Info().HoldsBack }

// begin posts a packet of a message.
func (n *node) begin(ah device.AH, to *node, turn uint32, data string) uint64 {
	n.w.Helper()
	wr := n.wr(ah, to, []byte(data), nil)
	wr.Begins, wr.MsgID = true, turn
	require.NoError(n.w, n.PostSend(wr))
	n.Doorbell()
	return wr.ID
}

// holdBack: messages of one sender from a turn on are refused until it is let go; other
// packets of its, earlier messages, and those of others, arrive. Turns wrap.
func (w *world) holdBack() {
	a, b, c := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{}), w.open(2, device.QPConfig{})
	second := w.open(0, device.QPConfig{})
	toB, back, fromC, fromSecond := a.ah(b), b.ah(a), c.ah(b), second.ah(b)
	const first = 1<<32 - 2
	arrives := func(from *node, ah device.AH, turn uint32, data string) {
		w.Helper()
		require.Equal(w, device.StatusOK, from.status(from.begin(ah, b, turn, data)))
		require.Equal(w, data, string(b.recv().data))
	}
	arrives(a, toB, first, "first")
	if !w.f.holdsBack() {
		require.ErrorIs(w, b.HoldBack(back, a.QPN(), true, 0), device.ErrNotSupported)
		return
	}
	require.ErrorIs(w, b.HoldBack(back+100, a.QPN(), true, 0), device.ErrBadAH)
	for range 2 {
		require.NoError(w, b.HoldBack(back, a.QPN(), true, first))
		require.NoError(w, b.HoldBack(back, a.QPN(), true, first+1))
		for _, turn := range []uint32{first + 1, 0, 1, 1 << 30} {
			require.Equal(w, device.StatusRNR, a.status(a.begin(toB, b, turn, "refused")), "turn %d", turn)
		}
		arrives(a, toB, first, "more of the first")
		arrives(a, toB, first-1<<30, "more of one long before")
		require.Equal(w, device.StatusOK, a.status(a.send(toB, b, []byte("an answer"))))
		require.Equal(w, "an answer", string(b.recv().data))
		arrives(c, fromC, 0, "of another")
		arrives(second, fromSecond, 0, "of its neighbour")

		require.NoError(w, b.HoldBack(back, a.QPN(), false, 0))
		arrives(a, toB, 0, "let go")
	}
	require.NoError(w, b.HoldBack(back, a.QPN()+1, true, 0)) // nobody
	arrives(a, toB, 1, "last")
	require.Empty(w, a.gone)
}

// heldIsResent: the device sends again what was refused, as if no receive had been posted.
func (w *world) heldIsResent() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.open(1, device.QPConfig{})
	to, back := a.ah(b), b.ah(a)
	require.Equal(w, device.StatusOK, a.status(a.begin(to, b, 0, "first")))
	b.recv()
	require.NoError(w, b.HoldBack(back, a.QPN(), true, 1))
	id := a.begin(to, b, 1, "waits")
	w.idle()
	require.NotContains(w, a.sends, id)
	require.Empty(w, b.recvs)
	require.NoError(w, b.HoldBack(back, a.QPN(), false, 0))
	require.Equal(w, device.StatusOK, a.status(id))
	require.Equal(w, "waits", string(b.recv().data))
}

// shutOut: everything of one queue pair is refused, others' packets arrive, and another queue pair at its
// place is let in.
func (w *world) shutOut() {
	const aKey = 99
	a, b, c := w.open(0, device.QPConfig{QKey: aKey}), w.open(1, device.QPConfig{}), w.open(2, device.QPConfig{})
	toB, back, fromC := a.ah(b), b.ah(a), c.ah(b)
	require.Equal(w, device.StatusOK, a.status(a.begin(toB, b, 0, "first")))
	b.recv()
	if !w.f.holdsBack() {
		require.ErrorIs(w, b.Shut(back, a.QPN(), aKey), device.ErrNotSupported)
		return
	}
	require.ErrorIs(w, b.Shut(back+100, a.QPN(), aKey), device.ErrBadAH)
	require.NoError(w, b.Shut(back, a.QPN()+1, aKey)) // nobody
	require.NoError(w, b.Shut(back, a.QPN(), aKey+1)) // another one there
	require.Equal(w, device.StatusOK, a.status(a.begin(toB, b, 0, "more")))
	b.recv()
	require.NoError(w, b.Shut(back, a.QPN(), aKey))
	for range 2 {
		require.Equal(w, device.StatusUnknownPeer, a.status(a.begin(toB, b, 1, "refused")))
		require.Equal(w, device.StatusUnknownPeer, a.status(a.send(toB, b, []byte("an answer"))))
		require.Equal(w, device.StatusOK, c.status(c.begin(fromC, b, 0, "of another")))
		require.Equal(w, "of another", string(b.recv().data))
		require.NoError(w, b.HoldBack(back, a.QPN(), false, 0)) // it stays shut out
	}
	if kinds := w.kinds(); len(kinds) > 0 {
		p := newProbe(w, 100)
		p.move(kinds[0], 0, 0, 100)
		require.NoError(w, p.b.Shut(p.b.ah(p.a), p.a.QPN(), 0))
		for _, kind := range kinds {
			p.refuse(kind, device.StatusUnknownPeer, 100, func(*device.SendWR) {})
		}
	}
}
