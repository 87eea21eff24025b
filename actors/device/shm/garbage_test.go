//go:build linux

package shm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// A process writes garbage all over a segment while others send to it and its owner
// receives. No process panics or spins; when it is over, and the senders of that
// time have gone, everything works and every slot is there.
func TestGarbage(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 20 {
		dir := fabricDir(t)
		q, ah := mustAttach(t, dir, device.QPConfig{QPN: testQPN, RQDepth: 8})
		p := portBehind(q)
		a, toQ := mustAttach(t, dir, device.QPConfig{RNRRetry: 1})
		ring := p.rx.ring
		for range 300 {
			switch rng.IntN(8) {
			case 0:
				ring.ctl.tail.Store(rng.Uint64())
			case 1:
				ring.ctl.posted.Store(rng.Uint64())
			case 2:
				ring.ctl.state.Store(uint32(rng.IntN(6)))
			case 3:
				ring.post(uint64(rng.IntN(ring.cells))).Store(rng.Uint64())
			case 4:
				k := kind(rng.IntN(4))
				ring.post(uint64(rng.IntN(ring.cells))).Store(uint64(makeWord(k, ring.lap(p.rx.head), 0, uint16(rng.IntN(8)), rng.IntN(2))))
			case 5:
				k := kind(rng.IntN(4))
				flags := word(rng.Uint32()) & (written | withImm)
				ring.cell[rng.IntN(ring.cells)].word.Store(uint64(flags | makeWord(k, ring.lap(p.rx.head), uint16(rng.IntN(1<<16)), uint16(rng.IntN(8)), rng.IntN(2))))
			case 6:
				ring.senders[rng.IntN(3)].who.Store(rng.Uint64())
			case 7:
				ring.senders[rng.IntN(3)].flags.Store(rng.Uint32())
			}
			wr := device.SendWR{AH: toQ, QPN: testQPN, Payload: make([]byte, rng.IntN(300))}
			_ = a.PostSend(&wr) // a full queue is fine
			pollOnce(a, func(device.Completion) {})
			pollOnce(q, func(e device.Completion) {
				if e.Op == device.OpRecv || e.Op == device.OpWritten {
					require.LessOrEqual(t, e.Len, math.MaxUint32)
					q.PostRecv([]int32{int32(e.ID)})
				}
			})
			if rng.IntN(10) == 0 {
				p.dev.watch.look()
			}
			if rng.IntN(10) == 0 && q.Arm() {
				p.dev.watch.look()
			}
		}
		require.NoError(t, a.Close())
		_ = ah
		for i := range ring.senders[:4] { // whatever the garbage made of it
			ring.senders[i].who.And(1)
		}
		for range 3 {
			p.dev.watch.look()
			for range 2 * patienceOne {
				pollOnce(q, func(e device.Completion) {
					if e.Op == device.OpRecv || e.Op == device.OpWritten {
						q.PostRecv([]int32{int32(e.ID)})
					}
				})
			}
		}
		posts := len(p.rx.later)
		for i := range p.rx.own {
			if p.rx.own[i].hasSlot() {
				posts++
			}
		}
		require.Equal(t, 8, posts)
		b, toQ := mustAttach(t, dir, device.QPConfig{RNRRetry: 7})
		for range 50 {
			got := false
			wr := device.SendWR{AH: toQ, QPN: testQPN, Payload: []byte("after the storm")}
			require.NoError(t, b.PostSend(&wr))
			for !got {
				pollOnce(b, func(device.Completion) {})
				pollOnce(q, func(e device.Completion) {
					if e.Op == device.OpRecv {
						got = string(q.RecvBytes(int(e.ID))[:e.Len]) == "after the storm"
						q.PostRecv([]int32{int32(e.ID)})
					}
				})
			}
		}
	}
}

func readable(t testing.TB, fds []int) bool {
	t.Helper()
	var ps []unix.PollFd
	for _, fd := range fds {
		ps = append(ps, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	n, err := unix.Poll(ps, 0)
	require.NoError(t, err)
	return n > 0
}

// A sender that dies after it took the sleeper's flag down and before it rang
// leaves the receiver asleep; the next look of the watcher wakes it.
func TestWakeLost(t *testing.T) {
	q, _ := mustAttach(t, fabricDir(t), device.QPConfig{})
	p := portBehind(q)
	require.True(t, q.Arm())
	p.dev.watch.look()
	require.False(t, readable(t, q.FDs()))
	require.True(t, p.rx.ctl.state.CompareAndSwap(parked, running))
	require.False(t, readable(t, q.FDs()))
	p.dev.watch.look()
	require.True(t, readable(t, q.FDs()))
	pollOnce(q, func(device.Completion) {})
	require.False(t, readable(t, q.FDs()), "Poll drains")
}

// A sender that stands still between claim and publish does not keep the others'
// packets from the receiver, and its own arrives when it goes on.
func TestSlowSender(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN, RQDepth: 4})
	slow, ah := mustAttach(t, dir, device.QPConfig{})
	wr := &device.SendWR{AH: ah, QPN: testQPN}
	require.Equal(t, device.StatusOK, statusOf(t, slow, wr)) // it is known now
	fast, _ := mustAttach(t, dir, device.QPConfig{RNRRetry: 7})

	l := portBehind(slow).links.get(testQPN)
	op := l.begin(&device.SendWR{Header: []byte("late")}, 0)
	for op.at != stepCopy {
		l.step(&op)
	}
	var got []string
	take := func(e device.Completion) {
		got = append(got, string(q.RecvBytes(int(e.ID))[:e.Len]))
		q.PostRecv([]int32{int32(e.ID)})
	}
	for range 100 {
		require.NoError(t, fast.PostSend(&device.SendWR{AH: ah, QPN: testQPN, Payload: []byte("fast")}))
		for n := len(got); len(got) == n; {
			pollOnce(fast, func(device.Completion) {})
			pollOnce(q, take)
		}
	}
	for op.at != stepOver {
		l.step(&op)
	}
	for got[len(got)-1] != "late" {
		pollOnce(q, take)
	}
}
