package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var pieceCases = []testCase{
	{name: "Pieces", devices: 2, run: (*world).somePieces},
	{name: "Pieces/resent", devices: 2, run: (*world).piecesResent},
	{name: "Pieces/refused", devices: 2, run: (*world).piecesRefused},
}

// cut makes a send of data in n pieces besides the header and the payload.
func (n *node) cut(ah device.AH, to *node, data []byte, pieces int) *device.SendWR {
	step := len(data) / (pieces + 2)
	wr := n.wr(ah, to, data[:step], data[step:2*step])
	data = data[2*step:]
	for i := range pieces {
		k := step
		if i == pieces-1 {
			k = len(data)
		}
		wr.More = append(wr.More, device.Piece{Mem: data[:k]})
		data = data[k:]
	}
	return wr
}

// somePieces sends packets of as many pieces as there may be; their list is free when
// PostSend returns.
func (w *world) somePieces() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7, SQDepth: 4}), w.open(1, device.QPConfig{QKey: 9})
	to := a.ah(b)
	most := w.f.Devices[0].Info().MaxPieces
	require.GreaterOrEqual(w, most, 2)
	for pieces := 1; pieces <= most-2; pieces++ {
		for _, size := range []int{pieces + 2, 1000, a.mtu} {
			data := fill(make([]byte, size), uint64(size))
			wr := a.cut(to, b, data, pieces)
			require.Equal(w, size, wr.Len())
			require.NoError(w, a.PostSend(wr))
			clear(wr.More)
			a.Doorbell()
			require.True(w, string(data) == string(b.recv().data), "%d bytes in %d pieces", size, pieces+2)
			require.Equal(w, device.StatusOK, a.status(wr.ID))
		}
	}
}

// piecesResent: a packet of several pieces meets RNR for a while.
func (w *world) piecesResent() {
	info := w.f.Devices[0].Info()
	if info.MaxPieces < 3 {
		return
	}
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.openBare(1, device.QPConfig{})
	data := fill(make([]byte, 500), 1)
	wr := a.cut(a.ah(b), b, data, 1)
	require.NoError(w, a.PostSend(wr))
	a.Doorbell()
	if info.CopiesAtPost {
		data = fill(make([]byte, 500), 1)
		clear(wr.More[0].Mem)
	}
	w.idle()
	require.Empty(w, a.sends)
	b.postAll()
	require.Equal(w, data, b.recv().data)
	require.Equal(w, device.StatusOK, a.status(wr.ID))
}

// piecesRefused: more pieces than Info says are refused, and so are too many bytes in them.
func (w *world) piecesRefused() {
	a, b := w.open(0, device.QPConfig{SQDepth: 1}), w.open(1, device.QPConfig{})
	to, info := a.ah(b), w.f.Devices[0].Info()
	data := make([]byte, 1000)
	require.ErrorIs(w, a.PostSend(a.cut(to, b, data, info.MaxPieces-1)), device.ErrNotSupported)
	if info.MaxPieces > 2 {
		require.ErrorIs(w, a.PostSend(a.cut(to, b, make([]byte, a.mtu+1), 1)), device.ErrTooLong)
	}
	if info.RDMARead {
		wr := a.wr(to, b, nil, nil)
		wr.Kind, wr.More = device.WRRead, make([]device.Piece, info.MaxRDMAPieces+1)
		require.ErrorIs(w, a.PostSend(wr), device.ErrNotSupported)
	}
	w.idle()
	require.Empty(w, a.sends)
	require.Empty(w, b.recvs)
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, data))) // the only place is free
}
