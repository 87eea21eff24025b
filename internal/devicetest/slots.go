package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var slotCases = []testCase{
	{name: "NothingPosted", devices: 2, run: (*world).nothingPosted},
	{name: "SlotsBelongToTheReader", devices: 2, run: (*world).slotsBelong},
	{name: "BadSlotsIgnored", devices: 2, run: (*world).badSlots},
}

// nothingPosted: all slots begin unposted, and only those posted are used.
func (w *world) nothingPosted() {
	a := w.open(0, device.QPConfig{})
	b := w.openBare(1, device.QPConfig{RQDepth: 4})
	b.keep = true
	to := a.ah(b)
	require.Equal(w, device.StatusRNR, a.status(a.send(to, b, []byte("0"))))
	b.PostRecv([]int32{2, 0})
	got := map[uint64]string{}
	for _, s := range []string{"1", "2"} {
		require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte(s))))
		p := b.recv()
		got[p.ID] = string(p.data)
	}
	require.Contains(w, got, uint64(0))
	require.Contains(w, got, uint64(2))
	require.Equal(w, device.StatusRNR, a.status(a.send(to, b, []byte("3"))))
	for slot, want := range got {
		require.Equal(w, want, string(b.RecvBytes(int(slot))[:1]))
	}
}

// slotsBelong: a slot that was not posted again keeps its packet while
// others arrive.
func (w *world) slotsBelong() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	b := w.open(1, device.QPConfig{RQDepth: 4})
	b.keep = true
	to := a.ah(b)
	a.send(to, b, fill(make([]byte, 500), 12345))
	kept := b.recv()
	for i := range uint64(50) {
		id := a.send(to, b, fill(make([]byte, 600), i))
		p := b.recv()
		require.NotEqual(w, kept.ID, p.ID)
		tag, whole := tagOf(b.RecvBytes(int(p.ID))[:p.Len])
		require.True(w, whole)
		require.Equal(w, i, tag)
		require.Equal(w, device.StatusOK, a.status(id))
		b.PostRecv([]int32{int32(p.ID)})
	}
	tag, whole := tagOf(b.RecvBytes(int(kept.ID))[:500])
	require.True(w, whole)
	require.Equal(w, uint64(12345), tag)
}

// badSlots: slots out of range and slots posted twice do no harm; above all no
// slot gets two packets.
func (w *world) badSlots() {
	a := w.open(0, device.QPConfig{})
	b := w.openBare(1, device.QPConfig{RQDepth: 2})
	b.keep = true
	to := a.ah(b)
	b.PostRecv([]int32{-1, 2, 1 << 30, 0, 0})
	b.PostRecv([]int32{0})
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("one"))))
	require.Equal(w, device.StatusRNR, a.status(a.send(to, b, []byte("two"))))
	p := b.recv()
	require.Zero(w, p.ID)
	require.Equal(w, "one", string(p.data))
	require.Nil(w, b.RecvBytes(-1))
	require.Nil(w, b.RecvBytes(2))
}
