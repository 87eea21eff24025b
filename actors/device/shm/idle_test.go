//go:build linux

package shm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

func init() { roles["several"] = several }

// armedTimer reports whether a timer descriptor will become readable, now or later.
func armedTimer(t testing.TB, fd int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	require.NoError(t, err)
	return !strings.Contains(string(text), "it_value: (0, 0)") || !strings.Contains(string(text), "it_interval: (0, 0)")
}

// TestIdleDeviceSleeps: a device whose queue pairs sleep, and that knows of nobody else, has no
// timer set, so nothing wakes it. It looks again as soon as somebody sends to it, and
// sleeps again when that one is gone.
func TestIdleDeviceSleeps(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN, QKey: testQKey})
	w := portBehind(q).dev.watch
	asleep := func() bool { return !armedTimer(t, w.timeFD) }
	require.True(t, armedTimer(t, w.timeFD), "a queue pair is polled")
	require.True(t, q.Arm())
	require.Eventually(t, asleep, time.Minute, time.Millisecond)

	p := start(t, "flood", dir, 1)
	got := false
	for !got {
		pollOnce(q, func(e device.Completion) { got = got || e.Op == device.OpRecv })
	}
	require.True(t, armedTimer(t, w.timeFD), "its lock is watched")
	p.kill()
	gone := false
	for !gone {
		pollOnce(q, func(e device.Completion) {
			switch e.Op {
			case device.OpRecv:
				q.PostRecv([]int32{int32(e.ID)})
			case device.OpGone:
				gone = true
			}
		})
	}
	require.True(t, q.Arm())
	require.Eventually(t, asleep, time.Minute, time.Millisecond)
}

// several has two queue pairs, an unfinished one and a region, sends one packet by the first
// and stands still.
func several(args []string) error {
	d, q, ah, err := attach(args[0], device.QPConfig{})
	if err != nil {
		return err
	}
	if _, err := d.OpenQP(device.QPConfig{}); err != nil {
		return err
	}
	if _, err := d.Alloc(1<<20, remoteAll); err != nil {
		return err
	}
	if err := os.WriteFile(args[0]+"/"+newName(77), nil, 0o600); err != nil {
		return err
	}
	if err := q.PostSend(&device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey, Payload: make([]byte, 8)}); err != nil {
		return err
	}
	q.Doorbell()
	say(q.QPN())
	<-orphaned()
	return nil
}

// TestNeighborRemovesFilesOfTheDead: a process that was killed has left files. A process that
// had packets from one of its queue pairs removes all of them.
func TestNeighborRemovesFilesOfTheDead(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN, QKey: testQKey})
	ours := names(t, dir)
	require.Len(t, ours, 2, "segment and bell")
	p := start(t, "several", dir)
	gone := false
	take := func(e device.Completion) { gone = gone || e.Op == device.OpGone && e.SrcQPN == p.qpn }
	pollOnce(q, take)
	require.Greater(t, len(names(t, dir)), len(ours)+4)
	p.kill()
	for !gone {
		pollOnce(q, take)
	}
	require.Eventually(t, func() bool { return slices.Equal(ours, names(t, dir)) }, time.Minute, time.Millisecond)
}
