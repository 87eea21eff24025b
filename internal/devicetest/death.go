package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var deathCases = []testCase{
	{name: "Death/status", devices: 3, run: (*world).deathStatus, needs: (*Fabric).canKill},
	{name: "Death/gone", devices: 3, run: (*world).deathGone, needs: (*Fabric).reportsGone},
	{name: "Pulse", devices: 2, run: (*world).pulse},
}

// pulse: that of a queue pair to which something was sent changes again and again, if the
// device has it. Of others, and of the dead, there is none.
func (w *world) pulse() {
	a, b := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{})
	to := a.ah(b)
	_, ok := a.Pulse(to, b.QPN())
	require.False(w, ok, "nothing was sent there")
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("hello"))))
	b.recv()
	last, ok := a.Pulse(to, b.QPN())
	require.Equal(w, w.f.Devices[0].Info().Pulse, ok)
	_, stranger := a.Pulse(to, b.QPN()+1)
	require.False(w, stranger)
	_, nowhere := a.Pulse(to+100, b.QPN())
	require.False(w, nowhere)
	if !ok {
		return
	}
	for range 2 {
		w.until("beat", func() bool {
			now, ok := a.Pulse(to, b.QPN())
			changed := ok && now != last
			last = now
			return changed
		})
	}
}

// deathStatus: sends to the dead end with a status that says so, those that wait
// for a resend, too; other sends are not affected.
func (w *world) deathStatus() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	b := w.open(1, device.QPConfig{RNRRetry: 7})
	bare := w.openBare(1, device.QPConfig{})
	c := w.open(2, device.QPConfig{})
	toB, toC := a.ah(b), a.ah(c)
	require.Equal(w, device.StatusOK, a.status(a.send(toB, b, []byte("alive"))))
	b.recv()
	waiting := a.send(toB, bare, []byte("nobody posts"))
	w.idle()
	require.NotContains(w, a.sends, waiting)

	w.drop(b)
	w.drop(bare)
	w.f.Kill(1)
	for range 3 {
		st := a.status(a.send(toB, b, []byte("dead")))
		require.True(w, st.Gone(), st.String())
	}
	st := a.status(waiting)
	require.True(w, st.Gone(), st.String())
	require.Equal(w, device.StatusOK, a.status(a.send(toC, c, []byte("alive"))))
	require.Equal(w, "alive", string(c.recv().data))
}

// deathGone: OpGone names the dead queue pair, by handle where there is one.
func (w *world) deathGone() {
	a, b := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{QKey: 0xabcd})
	c := w.open(2, device.QPConfig{})
	toB, toA := a.ah(b), b.ah(a)
	fromC := c.ah(b)
	require.Equal(w, device.StatusOK, a.status(a.send(toB, b, []byte("hello"))))
	require.Equal(w, device.StatusOK, c.status(c.send(fromC, b, []byte("hello"))))
	w.until("arrivals", func() bool { return len(b.recvs) == 2 })
	require.Equal(w, device.StatusOK, b.status(b.send(toA, a, []byte("hello"))))
	require.Equal(w, device.StatusOK, b.status(b.send(b.ah(c), c, []byte("hello"))))
	w.until("arrivals", func() bool { return len(a.recvs) == 1 && len(c.recvs) == 1 })
	require.NoError(w, c.DestroyAH(fromC))
	w.drop(b)
	w.f.Kill(1)
	w.until("both learn of it", func() bool { return len(a.gone) > 0 && len(c.gone) > 0 })
	w.idle()
	require.Len(w, a.gone, 1)
	require.Len(w, c.gone, 1)
	for _, g := range []device.Completion{a.gone[0], c.gone[0]} {
		require.Equal(w, b.QPN(), g.SrcQPN)
		require.Equal(w, uint32(0xabcd), g.QKey)
	}
	require.Equal(w, toB, a.gone[0].AH)
	require.Equal(w, device.UnknownAH, c.gone[0].AH)
	require.Equal(w, b.gid, c.gone[0].SrcGID)
}
