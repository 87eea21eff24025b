//go:build linux

package driver_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/interop/efaemu/driver"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// loop is a queue pair that sends to itself.
type loop struct {
	device.QP
	t    *testing.T
	card *driver.Card
	to   device.AH
}

func newLoop(t *testing.T, p profile.Profile) (*loop, device.Device) {
	fab, err := sim.New(sim.Config{})
	require.NoError(t, err)
	carrier, err := fab.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	d, card := open(t, carrier, p, uverbs.Config{})
	qp, err := d.OpenQP(device.QPConfig{RQDepth: 4})
	require.NoError(t, err)
	to, err := qp.CreateAH(d.Info().GID)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, qp.Close()) })
	return &loop{QP: qp, t: t, card: card, to: to}, d
}

// next is the next completion.
func (l *loop) next() (c [1]device.Completion) {
	for range 100_000 {
		l.card.Engine.Step()
		if l.Poll(c[:]) == 1 {
			return c
		}
	}
	l.t.Fatal("nothing completes")
	return c
}

// TestFirstCards: packets move on a card of the first generation, which has no events: it
// says that it cannot be slept on.
func TestFirstCards(t *testing.T) {
	l, d := newLoop(t, named(t, "efa0", nil))
	require.Zero(t, d.Info().MaxRDMA)
	l.PostRecv([]int32{0, 1})
	for range 2 {
		require.NoError(t, l.PostSend(&device.SendWR{AH: l.to, QPN: l.QPN(), Payload: make([]byte, 5000)}))
	}
	l.Doorbell()
	kinds := map[device.Op]int{}
	for range 4 {
		c := l.next()
		require.Equal(t, device.StatusOK, c[0].Status)
		kinds[c[0].Op]++
	}
	require.Equal(t, map[device.Op]int{device.OpSend: 2, device.OpRecv: 2}, kinds)
	require.False(t, l.Arm())
}

// TestRemoved: a card that is taken away ends its queue pairs, wakes those who sleep, and
// everything can be closed; the device cannot be opened any more.
func TestRemoved(t *testing.T) {
	l, d := newLoop(t, named(t, "efa", nil))
	mr, err := d.Alloc(5000, device.RemoteRead)
	require.NoError(t, err)
	l.PostRecv([]int32{0, 1})
	require.True(t, l.Arm())
	l.card.Kernel.Remove()
	fds := []unix.PollFd{}
	for _, fd := range l.FDs() {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	n, err := unix.Poll(fds, 10_000)
	require.NoError(t, err)
	require.Positive(t, n)
	c := l.next()
	require.Equal(t, device.Completion{Op: device.OpFatal, Status: device.StatusAbort}, c[0])
	require.ErrorIs(t, l.PostSend(&device.SendWR{AH: l.to}), device.ErrClosed)
	_, err = d.OpenQP(device.QPConfig{})
	require.Error(t, err)
	require.NoError(t, mr.Close())
	_, err = uverbs.Open(uverbs.Config{Kernel: l.card.System()})
	require.Error(t, err)
}
