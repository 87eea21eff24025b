package devicetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var queueCases = []testCase{
	{name: "QueueFull", devices: 2, run: (*world).queueFull},
	{name: "QueueFullWhileRefused", devices: 2, run: (*world).queueFullWhileRefused},
	{name: "IDsEchoed", devices: 2, run: (*world).idsEchoed},
	{name: "PollIntoLittleRoom", devices: 2, run: (*world).littleRoom},
	{name: "DepthLimits", devices: 1, run: (*world).depthLimits},
}

// queueFull: a send takes its place until it was polled, however early it
// completed, and the place is free again afterwards.
func (w *world) queueFull() {
	for _, depth := range []int{1, 2, 3, 4, 17} {
		a := w.open(0, device.QPConfig{SQDepth: depth, RNRRetry: 7})
		b := w.open(1, device.QPConfig{RQDepth: 32})
		to := a.ah(b)
		for lap := range 20 {
			for range depth {
				a.send(to, b, []byte("12345678"))
			}
			for range 3 {
				require.ErrorIs(w, a.PostSend(a.wr(to, b, nil, nil)), device.ErrQueueFull, "depth %d", depth)
				a.nextID--
			}
			// One completion makes room for one.
			w.drop(a)
			w.until("first completion", func() bool {
				got := a.Poll(a.comps[:1])
				if got == 1 {
					require.NoError(w, a.take(&a.comps[0]))
				}
				return got == 1
			})
			w.nodes = append(w.nodes, a)
			a.send(to, b, []byte("x"))
			require.ErrorIs(w, a.PostSend(a.wr(to, b, nil, nil)), device.ErrQueueFull)
			a.nextID--
			want := (lap + 1) * (depth + 1)
			w.until("all completions", func() bool { return len(a.sends) == want })
			w.until("all arrivals", func() bool { return len(b.recvs) == want })
		}
		for id, st := range a.sends {
			require.Equal(w, device.StatusOK, st, "send %d", id)
		}
	}
}

// queueFullWhileRefused fills the queue with sends that are not received.
func (w *world) queueFullWhileRefused() {
	const depth = 8
	a := w.open(0, device.QPConfig{SQDepth: depth, RNRRetry: 7})
	b := w.openBare(1, device.QPConfig{RQDepth: 4})
	to := a.ah(b)
	for i := range uint64(depth) {
		a.send(to, b, fill(make([]byte, 64), i))
	}
	w.idle()
	require.Empty(w, a.sends)
	require.ErrorIs(w, a.PostSend(a.wr(to, b, nil, nil)), device.ErrQueueFull)
	b.postAll()
	w.until("arrivals", func() bool { return len(b.recvs) == depth })
	w.until("completions", func() bool { return len(a.sends) == depth })
	seen := map[uint64]bool{}
	for _, p := range b.recvs {
		tag, whole := tagOf(p.data)
		require.True(w, whole)
		require.False(w, seen[tag], "twice: %d", tag)
		seen[tag] = true
	}
}

func (w *world) idsEchoed() {
	a, b := w.open(0, device.QPConfig{RNRRetry: 7}), w.open(1, device.QPConfig{})
	to := a.ah(b)
	for _, id := range []uint64{0, 1, 0xffff, 1 << 32, 1<<63 | 5, ^uint64(0)} {
		wr := a.wr(to, b, []byte("x"), nil)
		wr.ID = id
		require.NoError(w, a.PostSend(wr))
		a.Doorbell()
		require.Equal(w, device.StatusOK, a.status(id))
	}
}

// littleRoom polls into short slices: nothing gets lost, neither side starves.
func (w *world) littleRoom() {
	a := w.open(0, device.QPConfig{SQDepth: 32, RNRRetry: 7})
	to := a.ah(a)
	for i := range uint64(16) {
		a.send(to, a, fill(make([]byte, 8), i))
	}
	require.Zero(w, a.Poll(nil))
	w.drop(a)
	w.until("16 sends and 16 arrivals", func() bool {
		if a.Poll(a.comps[:1]) == 1 {
			require.NoError(w, a.take(&a.comps[0]))
		}
		return len(a.sends) == 16 && len(a.recvs) == 16
	})
}

func (w *world) depthLimits() {
	d := w.f.Devices[0]
	info := d.Info()
	for _, cfg := range []device.QPConfig{
		{SQDepth: info.MaxSQ + 1},
		{RQDepth: info.MaxRQ + 1},
		{SQDepth: -1},
		{RQDepth: -1},
		{RNRRetry: 8},
	} {
		qp, err := d.OpenQP(cfg)
		require.Error(w, err, fmt.Sprintf("%+v", cfg))
		require.Nil(w, qp)
	}
	for _, cfg := range []device.QPConfig{{}, {SQDepth: 1, RQDepth: 1}, {RQDepth: 5}} {
		n := w.openBare(0, cfg)
		require.Positive(w, n.RecvSlots())
		if cfg.RQDepth > 0 {
			require.Equal(w, cfg.RQDepth, n.RecvSlots())
		}
		for s := range n.RecvSlots() {
			require.Len(w, n.RecvBytes(s), info.MTU)
		}
	}
}
