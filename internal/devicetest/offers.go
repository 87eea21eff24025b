package devicetest

import (
	"os"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var offerCases = []testCase{
	{name: "NotOffered", devices: 1, run: (*world).notOffered},
	{name: "OnePath", devices: 1, run: (*world).onePath},
}

// notOffered: what Info does not list is refused, by the error that says so.
func (w *world) notOffered() {
	d := w.f.Devices[0]
	info := d.Info()
	refused := func(cfg device.QPConfig) {
		w.Helper()
		qp, err := d.OpenQP(cfg)
		require.ErrorIs(w, err, device.ErrNotSupported, "%+v", cfg)
		require.Nil(w, qp)
	}
	refused(device.QPConfig{Type: device.UD + 1})
	if !info.Datagram {
		refused(device.QPConfig{Type: device.UD})
	}
	if !info.DMABuf {
		_, err := d.RegisterDMABuf(0, 0, 4096, device.RemoteRead)
		require.ErrorIs(w, err, device.ErrNotSupported)
	}
	if !info.Foreign {
		_, err := d.RegisterForeign(os.Getpid(), 4096, 4096, device.RemoteRead)
		require.ErrorIs(w, err, device.ErrNotSupported)
	}
}

// onePath: a device reaches itself, and says of which devices its queue pairs and regions
// consist, if they do.
func (w *world) onePath() {
	d := w.f.Devices[0]
	require.True(w, d.Reaches(d.Info().GID))
	qp := w.open(0, device.QPConfig{})
	require.Len(w, qp.Paths(), len(d.Devices()))
	to := qp.ah(qp)
	require.Less(w, qp.PathOf(to), max(len(d.Devices()), 1))
	mr := w.alloc(0, 100, device.RemoteRead)
	for i := range max(len(d.Devices()), 1) {
		part := device.Part(mr, uint8(i))
		require.NotZero(w, part.RKey())
		require.Len(w, part.Bytes(), 100)
	}
}
