package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var rnrCases = []testCase{
	{name: "RNR/0", devices: 2, run: func(w *world) { w.rnr(0) }},
	{name: "RNR/1", devices: 2, run: func(w *world) { w.rnr(1) }},
	{name: "RNR/3", devices: 2, run: func(w *world) { w.rnr(3) }},
	{name: "RNR/forever", devices: 2, run: (*world).rnrForever},
	{name: "RNR/cured", devices: 2, run: (*world).rnrCured},
	{name: "RNR/set", devices: 2, run: (*world).rnrSet, needs: (*Fabric).setsRNR},
}

// rnr: nothing was ever posted at the receiver, so the send ends with StatusRNR and
// is gone; slots that are posted later get later packets only.
func (w *world) rnr(retries uint8) {
	a := w.open(0, device.QPConfig{RNRRetry: retries})
	b := w.openBare(1, device.QPConfig{RQDepth: 4})
	to := a.ah(b)
	for range 3 {
		require.Equal(w, device.StatusRNR, a.status(a.send(to, b, []byte("refused"))))
	}
	b.postAll()
	w.idle()
	require.Empty(w, b.recvs)
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("taken"))))
	require.Equal(w, "taken", string(b.recv().data))
}

// setsRNR: queue pairs learn RNRRetry late, too.
func (f *Fabric) setsRNR() bool {
	q, err := f.Devices[0].OpenQP(device.QPConfig{})
	if err != nil {
		return true // which the case will find out
	}
	err = q.SetRNRRetry(0)
	return q.Close() != nil || err == nil
}

// rnrSet: a queue pair that offers it is given the number of resends before its first
// send.
func (w *world) rnrSet() {
	for set, was := range map[uint8]uint8{0: 7, 1: 7, 7: 0} {
		a, b := w.open(0, device.QPConfig{RNRRetry: was}), w.openBare(1, device.QPConfig{})
		require.NoError(w, a.SetRNRRetry(set))
		id := a.send(a.ah(b), b, []byte("patient?"))
		if set < 7 {
			require.Equal(w, device.StatusRNR, a.status(id))
			continue
		}
		w.idle()
		require.Empty(w, a.sends)
		b.postAll()
		require.Equal(w, device.StatusOK, a.status(id))
		require.Equal(w, "patient?", string(b.recv().data))
	}
}

func (w *world) rnrForever() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	b := w.openBare(1, device.QPConfig{})
	id := a.send(a.ah(b), b, []byte("patient"))
	w.idle()
	require.Empty(w, a.sends)
	b.postAll()
	require.Equal(w, "patient", string(b.recv().data))
	require.Equal(w, device.StatusOK, a.status(id))
	w.idle()
	require.Empty(w, b.recvs, "it arrives once")
}

// rnrCured: with room for four, eight sends arrive as slots come back.
func (w *world) rnrCured() {
	a := w.open(0, device.QPConfig{RNRRetry: 7, SQDepth: 64})
	b := w.open(1, device.QPConfig{RQDepth: 4})
	b.keep = true
	to := a.ah(b)
	const n = 40
	for i := range uint64(n) {
		a.send(to, b, fill(make([]byte, 300), i))
	}
	seen := map[uint64]bool{}
	for range n {
		p := b.recv()
		tag, whole := tagOf(p.data)
		require.True(w, whole)
		require.False(w, seen[tag])
		seen[tag] = true
		require.LessOrEqual(w, len(b.recvs), 3)
		b.PostRecv([]int32{int32(p.ID)})
	}
	w.until("completions", func() bool { return len(a.sends) == n })
}
