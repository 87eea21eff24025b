package devicetest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var closeCases = []testCase{
	{name: "UseAfterClose", devices: 2, run: (*world).useAfterClose},
	{name: "DeviceClose", devices: 1, run: (*world).deviceClose},
	{name: "CloseSenderUnderWay", devices: 2, run: (*world).closeSender},
	{name: "CloseReceiverUnderWay", devices: 2, run: (*world).closeReceiver},
	{name: "CloseReceiverConcurrently", devices: 2, run: (*world).closeConcurrently, needs: (*Fabric).manyGoroutines},
}

func (w *world) drop(n *node) {
	w.nodes = slices.DeleteFunc(w.nodes, func(o *node) bool { return o == n })
}

func (w *world) useAfterClose() {
	a, b := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{})
	to := a.ah(b)
	a.send(to, b, []byte("unpolled"))
	b.recv()
	a.send(to, b, []byte("unpolled, too"))
	require.NoError(w, a.Close())
	w.drop(a)
	require.ErrorIs(w, a.PostSend(a.wr(to, b, nil, nil)), device.ErrClosed)
	_, err := a.CreateAH(b.gid)
	require.ErrorIs(w, err, device.ErrClosed)
	require.ErrorIs(w, a.DestroyAH(to), device.ErrClosed)
	require.ErrorIs(w, a.Close(), device.ErrClosed)
	a.PostRecv([]int32{0})
	a.Doorbell()
	require.False(w, a.Arm())
	w.idle()
	require.Zero(w, a.Poll(a.comps[:]))
}

func (w *world) deviceClose() {
	d := w.f.Devices[0]
	a := w.open(0, device.QPConfig{})
	b := w.open(0, device.QPConfig{})
	require.Error(w, d.Close())
	require.NoError(w, a.Close())
	require.Error(w, d.Close())
	require.NoError(w, b.Close())
	require.NoError(w, d.Close())
	_, err := d.OpenQP(device.QPConfig{})
	require.ErrorIs(w, err, device.ErrClosed)
	require.ErrorIs(w, d.Close(), device.ErrClosed)
}

// closeSender closes in the middle of a burst, part of which waits for resends.
// Packets that arrive are whole and arrive once; the sender's memory may be used
// again.
func (w *world) closeSender() {
	b := w.open(1, device.QPConfig{RQDepth: 8})
	for round := range uint64(20) {
		a := w.open(0, device.QPConfig{SQDepth: 32, RNRRetry: 7})
		to := a.ah(b)
		var bufs [][]byte
		for i := range uint64(24) {
			buf := fill(make([]byte, 700), round<<32|i)
			bufs = append(bufs, buf)
			require.NoError(w, a.PostSend(a.wr(to, b, buf, nil)))
		}
		a.Doorbell()
		for range round % 4 {
			w.turn()
		}
		w.drop(a)
		require.NoError(w, a.Close())
		for _, buf := range bufs {
			clear(buf)
		}
		require.Zero(w, a.Poll(a.comps[:]))
		w.idle()
	}
	seen := map[uint64]bool{}
	for _, p := range b.recvs {
		tag, whole := tagOf(p.data)
		require.True(w, whole)
		require.False(w, seen[tag])
		seen[tag] = true
	}
}

// closeReceiver closes the other end in the middle of a burst: every send ends.
func (w *world) closeReceiver() {
	a := w.open(0, device.QPConfig{SQDepth: 32, RNRRetry: 7})
	for round := range 20 {
		b := w.open(1, device.QPConfig{RQDepth: 8})
		to := a.ah(b)
		for range 24 {
			a.send(to, b, make([]byte, 700))
		}
		for range round % 4 {
			w.turn()
		}
		w.drop(b)
		require.NoError(w, b.Close())
		got := len(b.recvs)
		w.until("the end of all sends", func() bool { return len(a.sends) == int(a.nextID) })
		require.Zero(w, b.Poll(b.comps[:]))
		require.Len(w, b.recvs, got)
	}
	for id, st := range a.sends {
		require.True(w, st == device.StatusOK || st.Gone(), "send %d: %v", id, st)
	}
}

// closeConcurrently closes a receiver while two goroutines send to it.
func (w *world) closeConcurrently() {
	for range 20 {
		b := w.open(1, device.QPConfig{RQDepth: 8})
		w.drop(b)
		var nodes []*node
		var ahs []device.AH
		for range 2 {
			n := w.open(0, device.QPConfig{SQDepth: 16, RNRRetry: 1})
			w.drop(n)
			nodes, ahs = append(nodes, n), append(ahs, n.ah(b))
		}
		qpn, errs := b.QPN(), make([]error, len(nodes))
		var wait sync.WaitGroup
		for i, n := range nodes {
			wait.Go(func() { errs[i] = w.sendUntilGone(n, ahs[i], qpn) })
		}
		for len(b.recvs) < 50 && w.ctx.Err() == nil {
			b.poll()
			runtime.Gosched()
		}
		require.NoError(w, b.Close())
		wait.Wait()
		require.NoError(w, errors.Join(errs...))
	}
}

// sendUntilGone sends until a status says that the other side is not there, and
// all sends have ended.
func (w *world) sendUntilGone(n *node, ah device.AH, qpn uint16) error {
	wr := device.SendWR{AH: ah, QPN: qpn, Header: fill(make([]byte, 64), 1)}
	gone, out := false, 0
	for !gone || out > 0 {
		if err := w.ctx.Err(); err != nil {
			return fmt.Errorf("%d sends never ended: %w", out, err)
		}
		if !gone {
			switch err := n.PostSend(&wr); {
			case err == nil:
				out++
			case !errors.Is(err, device.ErrQueueFull):
				return err
			}
			n.Doorbell()
		}
		got := n.Poll(n.comps[:])
		for _, c := range n.comps[:got] {
			if c.Op == device.OpGone && c.Left {
				continue
			}
			if c.Op != device.OpSend {
				return fmt.Errorf("unexpected %+v", c)
			}
			out--
			gone = gone || c.Status.Gone()
		}
		runtime.Gosched()
	}
	return nil
}
