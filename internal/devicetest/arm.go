package devicetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
)

var armCases = []testCase{
	{name: "ArmAndNotify", devices: 2, run: (*world).armAndNotify},
	{name: "ArmRefusedWhenReady", devices: 2, run: (*world).armRefused},
	{name: "NoWakeUpLost", devices: 2, run: (*world).noWakeUpLost, needs: (*Fabric).manyGoroutines},
}

// sleeper lets a queue pair's owner sleep by the means that the driver has.
type sleeper struct {
	n      *node
	notify chan struct{}
	calls  atomic.Int64
}

// openSleeper makes a queue pair that can be slept on.
func (w *world) openSleeper(i int, cfg device.QPConfig) *sleeper {
	w.Helper()
	s := &sleeper{notify: make(chan struct{}, 1)}
	cfg.Notify = func() {
		s.calls.Add(1)
		select {
		case s.notify <- struct{}{}:
		default:
		}
	}
	s.n = w.open(i, cfg)
	return s
}

// sleep waits until the armed queue pair has work.
func (s *sleeper) sleep() error {
	if fds := s.n.FDs(); len(fds) > 0 {
		return pollFDs(s.n.w.ctx, fds)
	}
	select {
	case <-s.notify:
		return nil
	case <-s.n.w.ctx.Done():
		return s.n.w.ctx.Err()
	}
}

// armAndNotify: an armed queue pair is notified of the next arrival, once, and
// not at all when it is not armed.
func (w *world) armAndNotify() {
	a := w.open(0, device.QPConfig{RNRRetry: 7})
	b := w.openSleeper(1, device.QPConfig{})
	to := a.ah(b.n)
	for i := range uint64(20) {
		w.until("arm", func() bool {
			a.poll()
			return b.n.Arm()
		})
		id := a.send(to, b.n, fill(make([]byte, 20), i))
		w.nodes = []*node{a} // b sleeps
		if len(b.n.FDs()) == 0 {
			w.until("notification", func() bool { return b.calls.Load() == int64(i)+1 })
		}
		require.NoError(w, b.sleep())
		require.Equal(w, device.StatusOK, a.status(id))
		w.nodes = []*node{a, b.n}
		tag, whole := tagOf(b.n.recv().data)
		require.True(w, whole)
		require.Equal(w, i, tag)
		// Not armed: there must be no notification.
		require.Equal(w, device.StatusOK, a.status(a.send(to, b.n, []byte("quiet"))))
		b.n.recv()
		if len(b.n.FDs()) == 0 {
			require.Equal(w, int64(i)+1, b.calls.Load())
		}
	}
}

// armRefused: an owner with something to poll may not sleep.
func (w *world) armRefused() {
	a, b := w.open(0, device.QPConfig{}), w.open(1, device.QPConfig{})
	to := a.ah(b)
	a.send(to, b, []byte("x"))
	w.until("something is ready at b", func() bool {
		w.nodes = []*node{a}
		w.turn()
		return !b.Arm()
	})
	w.until("completion, unless it was polled", func() bool {
		return len(a.sends) == 1
	})
	b.poll()
	require.Len(w, b.recvs, 1)
	// A completed send that was not polled counts as well.
	a.send(to, b, []byte("y"))
	w.nodes = []*node{b}
	w.until("the completion is ready at a", func() bool {
		w.turn()
		return !a.Arm()
	})
	w.nodes = []*node{a, b}
	w.until("completion", func() bool { return len(a.sends) == 2 })
}

// noWakeUpLost plays ping-pong between two owners that sleep whenever they may. A
// lost notification ends in the case's deadline.
func (w *world) noWakeUpLost() {
	rounds := 2000
	if testenv.Short() {
		rounds = 300
	}
	a := w.openSleeper(0, device.QPConfig{RNRRetry: 7})
	b := w.openSleeper(1, device.QPConfig{RNRRetry: 7})
	play := func(me, other *sleeper, ah device.AH, serve bool) error {
		n := me.n
		have := 0
		send := serve
		for have < rounds || len(n.sends) < rounds {
			if send {
				send = false
				if err := n.PostSend(n.wr(ah, other.n, []byte("ball"), nil)); err != nil {
					return err
				}
				n.Doorbell()
			}
			got := n.Poll(n.comps[:])
			for i := range n.comps[:got] {
				if err := n.take(&n.comps[i]); err != nil {
					return err
				}
			}
			if len(n.recvs) > 0 {
				have += len(n.recvs)
				n.recvs = n.recvs[:0]
				send = !serve || have < rounds
			}
			if got > 0 || send {
				continue
			}
			if err := w.ctx.Err(); err != nil {
				return fmt.Errorf("after %d balls: %w", have, err)
			}
			if have == rounds && len(n.sends) == rounds {
				break
			}
			if n.Arm() {
				if err := me.sleep(); err != nil {
					return fmt.Errorf("after %d balls, asleep: %w", have, err)
				}
			}
		}
		for id, st := range n.sends {
			if st != device.StatusOK {
				return fmt.Errorf("ball %d: %v", id, st)
			}
		}
		n.Arm() // an owner that stops polling must do so, and the driver need not notify it then
		return nil
	}
	toB, toA := a.n.ah(b.n), b.n.ah(a.n)
	var errA, errB error
	var wait sync.WaitGroup
	wait.Go(func() { errA = play(a, b, toB, true) })
	wait.Go(func() { errB = play(b, a, toA, false) })
	wait.Wait()
	require.NoError(w, errors.Join(errA, errB))
}
