package devicetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var datagramCases = []testCase{
	{name: "Datagram", devices: 2, run: (*world).datagram, needs: (*Fabric).hasDatagram},
	{name: "Datagram/lost", devices: 2, run: (*world).datagramLost, needs: (*Fabric).hasDatagram},
	{name: "Datagram/flood", devices: 2, run: (*world).datagramFlood, needs: (*Fabric).hasDatagram},
}

func (f *Fabric) hasDatagram() bool { return f.Devices[0].Info().Datagram }

// datagram: packets of all sizes and in pieces arrive whole where there is room for them, with
// their sender and immediate data.
func (w *world) datagram() {
	cfg := device.QPConfig{Type: device.UD, RNRRetry: 7}
	a, b := w.open(0, cfg), w.open(1, cfg)
	to, back := a.ah(b), b.ah(a)
	for _, size := range []int{0, 1, 32, 33, 100, 4096, a.mtu - 1, a.mtu} {
		data := fill(make([]byte, size), uint64(size))
		id := a.send(to, b, data)
		p := b.recv()
		require.Equal(w, data, p.data)
		require.Equal(w, back, p.AH)
		require.Equal(w, a.QPN(), p.SrcQPN)
		require.Equal(w, device.StatusOK, a.status(id))
		if size > 2 && w.f.Devices[0].Info().MaxPieces > 2 {
			id = a.post(a.cut(to, b, data, 3))
			require.Equal(w, data, b.recv().data)
			require.Equal(w, device.StatusOK, a.status(id))
		}
	}
	wr := a.wr(to, b, nil, []byte("data"))
	wr.HasImm, wr.Imm = true, 0xabcd1234
	a.post(wr)
	p := b.recv()
	require.True(w, p.HasImm)
	require.Equal(w, uint32(0xabcd1234), p.Imm)

	require.ErrorIs(w, a.PostSend(a.wr(to, b, nil, make([]byte, a.mtu+1))), device.ErrTooLong)
	for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
		wr := a.wr(to, b, nil, make([]byte, 8))
		wr.Kind = kind
		require.ErrorIs(w, a.PostSend(wr), device.ErrNotSupported, "%v", kind)
	}
}

// datagramLost: a datagram that meets no receive, no queue pair or another Q_Key is over as
// any other, and the next one arrives.
func (w *world) datagramLost() {
	cfg := device.QPConfig{Type: device.UD, RNRRetry: 7, RQDepth: 4}
	a, b := w.open(0, cfg), w.openBare(1, cfg)
	to := a.ah(b)
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("no receive"))))
	w.idle()
	b.postAll()
	wrong := a.wr(to, b, nil, []byte("wrong key"))
	wrong.QKey++
	require.Equal(w, device.StatusOK, a.status(a.post(wrong)))
	nobody := a.wr(to, b, nil, []byte("nobody"))
	nobody.QPN ^= 1 << 9
	require.Equal(w, device.StatusOK, a.status(a.post(nobody)))
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("arrives"))))
	got := string(b.recv().data)
	if got == "no receive" { // it was under way for so long
		got = string(b.recv().data)
	}
	require.Equal(w, "arrives", got)
}

// datagramFlood: many more datagrams than the receiver takes are over all the same, and some
// of those that arrive later are received.
func (w *world) datagramFlood() {
	cfg := device.QPConfig{Type: device.UD, RQDepth: 4, SQDepth: 16}
	a, b := w.open(0, cfg), w.openBare(1, cfg)
	to := a.ah(b)
	for range 500 {
		require.Equal(w, device.StatusOK, a.status(a.send(to, b, make([]byte, a.mtu))))
	}
	w.idle()
	b.postAll()
	w.until("a datagram arrives", func() bool {
		require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("again"))))
		return slices.ContainsFunc(b.recvs, func(p packet) bool { return string(p.data) == "again" })
	})
}
