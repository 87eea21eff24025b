package devicetest

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var userRecvCases = []testCase{
	{name: "UserRecv", devices: 2, run: (*world).userRecv, needs: (*Fabric).hasUserRecv},
	{name: "UserRecv/queue", devices: 2, run: (*world).userRecvQueue, needs: (*Fabric).hasUserRecv},
	{name: "UserRecv/written", devices: 2, run: (*world).userRecvWritten, needs: func(f *Fabric) bool { return f.hasUserRecv() && f.solicited() }},
	{name: "UserRecv/keys", devices: 2, run: (*world).userRecvKeys, needs: func(f *Fabric) bool {
		return f.hasUserRecv() && f.Devices[0].Info().LocalKeys
	}},
}

func (f *Fabric) hasUserRecv() bool { return f.Devices[0].Info().UserRecv }

// openUser makes a queue pair that receives into the caller's buffers.
// It has four places, on the second device.
func (w *world) openUser() *node {
	n := w.openBare(1, device.QPConfig{RQDepth: 4, QKey: 3, UserRecv: true})
	n.bufs = map[uint64][]byte{}
	return n
}

// into posts a receive into a region of n bytes.
func (n *node) into(size int) (uint64, device.MR) {
	n.w.Helper()
	mr := n.w.alloc(n.dev, size, device.LocalWrite)
	n.nextID++
	wr := device.RecvWR{ID: 1<<40 + n.nextID, Mem: mr.Bytes(), LKey: mr.LKey()}
	require.NoError(n.w, n.PostRecvInto(&wr))
	n.bufs[wr.ID] = wr.Mem
	n.Doorbell()
	return wr.ID, mr
}

// userRecv: each packet lies in the buffer that was posted longest, and one that does not
// fit ends its receive.
func (w *world) userRecv() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.openUser()
	to, back := a.ah(b), b.ah(a)
	require.Zero(w, b.RecvSlots())
	require.Nil(w, b.RecvBytes(0))
	b.PostRecv([]int32{0, 1}) // there are none
	for round := range 10 {
		for _, size := range []int{0, 1, 100, b.mtu} {
			id, _ := b.into(max(size+round%2, 1))
			data := fill(make([]byte, size), uint64(size))
			sent := a.send(to, b, data)
			p := b.recv()
			require.Equal(w, device.StatusOK, p.Status)
			require.Equal(w, id, p.ID)
			require.Equal(w, back, p.AH)
			require.Equal(w, data, p.data)
			require.Equal(w, device.StatusOK, a.status(sent))
		}
	}
	id, _ := b.into(99)
	sent := a.send(to, b, make([]byte, 100))
	p := b.recv()
	require.Equal(w, []any{id, device.StatusLocalBadLength}, []any{p.ID, p.Status})
	a.status(sent) // whatever it is
	id, _ = b.into(100)
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, make([]byte, 100))))
	require.Equal(w, id, b.recv().ID)
}

// userRecvQueue: there are RQDepth places, and what is not posted meets RNR.
func (w *world) userRecvQueue() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 1}), w.openUser()
	to := a.ah(b)
	require.Equal(w, device.StatusRNR, a.status(a.send(to, b, []byte("early"))))
	for range 3 {
		var ids []uint64
		for range 4 {
			id, _ := b.into(10)
			ids = append(ids, id)
		}
		require.ErrorIs(w, b.PostRecvInto(&device.RecvWR{Mem: make([]byte, 10)}), device.ErrQueueFull)
		for _, id := range ids {
			require.Equal(w, device.StatusOK, a.status(a.send(to, b, []byte("text"))))
			require.Equal(w, id, b.recv().ID, "the oldest")
		}
	}
	slots := w.openBare(1, device.QPConfig{})
	require.ErrorIs(w, slots.PostRecvInto(&device.RecvWR{Mem: make([]byte, 10)}), device.ErrNotSupported)
	require.NoError(w, slots.Close())
	require.ErrorIs(w, slots.PostRecvInto(&device.RecvWR{Mem: make([]byte, 10)}), device.ErrClosed)
}

// userRecvWritten: a write with immediate takes a receive and leaves its buffer alone.
func (w *world) userRecvWritten() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.openUser()
	o, mr := w.alloc(0, 50, allAccess), w.alloc(1, 50, allAccess)
	id, mem := b.into(50)
	wr := a.wr(a.ah(b), b, nil, o.Bytes())
	wr.Kind, wr.HasImm, wr.Imm, wr.LKey, wr.RKey, wr.Remote = device.WRWrite, true, 7, o.LKey(), mr.RKey(), mr.Addr()
	require.NoError(w, a.PostSend(wr))
	a.Doorbell()
	require.Equal(w, device.StatusOK, a.status(wr.ID))
	w.until("news of the write", func() bool { return len(b.landed) > 0 })
	require.Equal(w, id, b.landed[0].ID)
	require.Equal(w, make([]byte, 50), mem.Bytes())
}

// userRecvKeys: where there are local keys the buffer lies in a region.
func (w *world) userRecvKeys() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.openUser()
	to := a.ah(b)
	mr, other := w.alloc(1, 100, device.LocalWrite), w.alloc(1, 100, device.RemoteRead)
	for _, wr := range []device.RecvWR{
		{Mem: mr.Bytes(), LKey: mr.LKey() + 1},
		{Mem: make([]byte, 10), LKey: mr.LKey()},
		{Mem: other.Bytes(), LKey: other.LKey()}, // not to be written
	} {
		require.ErrorIs(w, b.PostRecvInto(&wr), device.ErrBadKey)
	}
	_, gone := b.into(100)
	require.NoError(w, gone.Close())
	sent := a.send(to, b, []byte("late"))
	require.Equal(w, device.StatusInvalidLKey, b.recv().Status)
	a.status(sent)
}
