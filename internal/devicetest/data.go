package devicetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
)

var dataCases = []testCase{
	{name: "EverySize", devices: 2, run: (*world).everySize},
	{name: "TooLong", devices: 2, run: (*world).tooLong},
	{name: "HeaderAndPayload", devices: 2, run: (*world).headerAndPayload},
	{name: "SelfSend", devices: 1, run: (*world).selfSend},
	{name: "BytesTakenAtPost", devices: 2, run: (*world).bytesTakenAtPost, needs: (*Fabric).copiesAtPost},
	{name: "BytesStayUntilDoorbell", devices: 2, run: (*world).bytesStay, needs: (*Fabric).copiesAtPost},
	{name: "Prompt", devices: 2, run: (*world).prompt},
	{name: "Shuffled", devices: 2, run: (*world).shuffled, needs: (*Fabric).shuffles},
	{name: "TwoQueuePairsOfADevice", devices: 1, run: (*world).twoOfADevice},
}

// everySize sends each size from none to the MTU, split differently each time.
func (w *world) everySize() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.open(1, device.QPConfig{QKey: 9})
	to, back := a.ah(b), b.ah(a)
	buf := make([]byte, a.mtu)
	for size := range a.mtu + 1 {
		if testenv.Short() && size > 512 && size < a.mtu && size%29 > 0 {
			continue
		}
		data := fill(buf[:size], uint64(size))
		cut := size * (size % 5) / 4
		wr := a.wr(to, b, data[:cut], data[cut:])
		require.NoError(w, a.PostSend(wr))
		a.Doorbell()
		p := b.recv()
		require.Equal(w, device.StatusOK, p.Status)
		require.Equal(w, size, p.Len)
		require.Equal(w, back, p.AH)
		require.Equal(w, a.QPN(), p.SrcQPN)
		require.True(w, string(data) == string(p.data), "bytes of size %d", size)
		require.Equal(w, device.StatusOK, a.status(wr.ID))
	}
	require.Empty(w, b.recvs)
}

func (w *world) tooLong() {
	a, b := w.open(0, device.QPConfig{SQDepth: 1}), w.open(1, device.QPConfig{})
	to := a.ah(b)
	buf := make([]byte, a.mtu+1)
	require.ErrorIs(w, a.PostSend(a.wr(to, b, buf, nil)), device.ErrTooLong)
	require.ErrorIs(w, a.PostSend(a.wr(to, b, nil, buf)), device.ErrTooLong)
	require.ErrorIs(w, a.PostSend(a.wr(to, b, buf[:a.mtu], buf[:1])), device.ErrTooLong)
	w.idle()
	require.Empty(w, a.sends)
	require.Empty(w, b.recvs)
	// The only place in the queue was not used up.
	require.Equal(w, device.StatusOK, a.status(a.send(to, b, buf[:a.mtu])))
}

func (w *world) headerAndPayload() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.open(1, device.QPConfig{})
	to := a.ah(b)
	for _, size := range []int{64, a.mtu} {
		data := fill(make([]byte, size), uint64(size))
		for cut := 0; cut <= size; cut += max(1, size/100) {
			wr := a.wr(to, b, data[:cut], data[cut:])
			require.NoError(w, a.PostSend(wr))
			a.Doorbell()
			require.True(w, string(data) == string(b.recv().data), "cut at %d of %d", cut, size)
			require.Equal(w, device.StatusOK, a.status(wr.ID))
		}
	}
}

// prompt lets sends complete at post: each ends there or by a completion, never
// both, and none that fails or is to be sent again ends at post.
func (w *world) prompt() {
	a, b := w.open(0, device.QPConfig{SQDepth: 2, RNRRetry: 7}), w.openBare(1, device.QPConfig{})
	to := a.ah(b)
	send := func(qkey uint32) *device.SendWR {
		wr := a.wr(to, b, fill(make([]byte, 16), a.nextID+1), nil)
		wr.Prompt, wr.QKey = true, qkey
		require.NoError(w, a.PostSend(wr))
		a.Doorbell()
		return wr
	}
	wrong, early := send(b.qkey+1), send(b.qkey)
	require.False(w, wrong.Over)
	require.False(w, early.Over, "nothing is posted there")
	require.NotEqual(w, device.StatusOK, a.status(wrong.ID))
	b.postAll()
	require.Equal(w, device.StatusOK, a.status(early.ID))
	tag, ok := tagOf(b.recv().data)
	require.True(w, ok && tag == early.ID)
	for range 100 {
		wr := send(b.qkey)
		tag, ok := tagOf(b.recv().data)
		require.True(w, ok && tag == wr.ID)
		if !wr.Over {
			require.Equal(w, device.StatusOK, a.status(wr.ID))
			continue
		}
		a.poll()
		require.NotContains(w, a.sends, wr.ID, "ended at post")
	}
	w.idle()
	require.Empty(w, b.recvs)
}

func (w *world) selfSend() {
	a := w.open(0, device.QPConfig{QKey: 77})
	to := a.ah(a)
	for i := range uint64(100) {
		id := a.send(to, a, fill(make([]byte, 100), i))
		p := a.recv()
		require.Equal(w, to, p.AH)
		require.Equal(w, a.QPN(), p.SrcQPN)
		tag, whole := tagOf(p.data)
		require.True(w, whole)
		require.Equal(w, i, tag)
		require.Equal(w, device.StatusOK, a.status(id))
	}
}

// bytesTakenAtPost changes the buffer after PostSend, also when the packet waits
// for a resend.
func (w *world) bytesTakenAtPost() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	b := w.openBare(1, device.QPConfig{})
	to := a.ah(b)
	for i, bare := range []bool{true, false} {
		head, body := fill(make([]byte, 40), 1), fill(make([]byte, 999), 2)
		want := slices.Concat(head, body)
		wr := a.wr(to, b, head, body)
		require.NoError(w, a.PostSend(wr))
		clear(head)
		clear(body)
		*wr = device.SendWR{ID: wr.ID}
		a.Doorbell()
		if bare {
			w.idle()
			b.postAll()
		}
		require.Equal(w, want, b.recv().data, "round %d", i)
		require.Equal(w, device.StatusOK, a.status(wr.ID))
	}
}

// bytesStay changes payloads that stay until Doorbell when that has returned: the first while a connection is
// set up, if there is one, then more than one takes for a receiver that reads nothing.
func (w *world) bytesStay() {
	const depth = 512
	a := w.open(0, device.QPConfig{RNRRetry: 7, SQDepth: depth})
	b := w.open(1, device.QPConfig{RQDepth: depth})
	to := a.ah(b)
	data := make([]byte, 8*a.mtu)
	for _, n := range []int{1, depth} {
		for k := range n {
			packet := fill(data[k%8*a.mtu:][:a.mtu], uint64(k))
			wr := a.wr(to, b, packet[:40], packet[40:])
			wr.Stays = true
			require.NoError(w, a.PostSend(wr))
			if k%8 == 7 || k == n-1 {
				a.Doorbell()
				clear(data)
			}
		}
		w.until("arrivals", func() bool { return len(b.recvs) == n })
		w.until("completions", func() bool { return len(a.sends) == n })
		for range n {
			_, whole := tagOf(b.recv().data)
			require.True(w, whole)
		}
		clear(a.sends)
	}
}

// shuffled expects a fabric that shuffles to do so, and to lose nothing.
func (w *world) shuffled() {
	a := w.open(0, device.QPConfig{SQDepth: 64, RNRRetry: 7})
	b := w.open(1, device.QPConfig{RQDepth: 64})
	to := a.ah(b)
	for range 20 {
		for i := range uint64(32) {
			require.NoError(w, a.PostSend(a.wr(to, b, fill(make([]byte, 16), i), nil)))
		}
		a.Doorbell()
		w.until("32 arrivals", func() bool { return len(b.recvs) == 32 })
		var tags []uint64
		for _, p := range b.recvs {
			tag, whole := tagOf(p.data)
			require.True(w, whole)
			tags = append(tags, tag)
		}
		b.recvs = nil
		w.until("completions", func() bool { return len(a.sends) == int(a.nextID) })
		inOrder := slices.IsSorted(tags)
		slices.Sort(tags)
		require.Len(w, slices.Compact(tags), 32)
		if !inOrder {
			return
		}
	}
	w.Fatal("20 times 32 packets in order")
}

func (w *world) twoOfADevice() {
	a, b := w.open(0, device.QPConfig{QKey: 1}), w.open(0, device.QPConfig{QKey: 2})
	require.NotEqual(w, a.QPN(), b.QPN())
	id := a.send(a.ah(b), b, []byte("to b"))
	require.Equal(w, "to b", string(b.recv().data))
	require.Equal(w, device.StatusOK, a.status(id))
	require.Empty(w, a.recvs)
}
