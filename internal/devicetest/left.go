package devicetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var leftCases = []testCase{
	{"Left", 2, (*world).left, (*Fabric).reportsGone},
}

// left: a queue pair that is closed in order is reported as such, after all that it has sent.
func (w *world) left() {
	const packets = 40
	b := w.open(1, device.QPConfig{RQDepth: 64})
	for round := range uint32(5) {
		a := w.open(0, device.QPConfig{SQDepth: packets, RNRRetry: 7, QKey: 0xabc0 + round})
		to := a.ah(b)
		if round%2 == 1 {
			require.Equal(w, device.StatusOK, b.status(b.send(b.ah(a), a, []byte("hello"))))
		}
		before := len(b.recvs)
		for i := range uint64(packets) {
			require.NoError(w, a.PostSend(a.wr(to, b, fill(make([]byte, 8+16*i), i), nil)))
		}
		a.Doorbell()
		w.until("the end of all sends", func() bool { return len(a.sends) == packets })
		w.drop(a)
		qpn := a.QPN()
		require.NoError(w, a.Close())
		of := func(c device.Completion) bool { return c.QKey == 0xabc0+round }
		w.until("the news", func() bool { return slices.ContainsFunc(b.gone, of) })
		c := b.gone[slices.IndexFunc(b.gone, of)]
		require.True(w, c.Left)
		require.Equal(w, qpn, c.SrcQPN)
		if c.AH == device.UnknownAH {
			require.NotZero(w, c.SrcGID)
		}
		w.idle()
		if w.f.Devices[0].Devices() == nil { // else each path tells what was sent on it
			require.Equal(w, before+packets, b.beforeGone)
			require.Len(w, b.gone, int(round)+1, "once")
		}
	}
}
