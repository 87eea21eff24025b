package efanet_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
)

// failing is a device whose queue pairs can be made to fail.
type failing struct {
	device.Device
	failed atomic.Bool
}

type failingQP struct {
	device.QP
	dev *failing
}

func (d *failing) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	return &failingQP{qp, d}, err
}

func (q *failingQP) Poll(c []device.Completion) int {
	if q.dev.failed.Load() {
		panic("the card is gone")
	}
	return q.QP.Poll(c)
}

// TestDeviceFails: a device that fails is an error of Accept, and of every connection.
func TestDeviceFails(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	bad := &failing{Device: d}
	l, err := (&efanet.ListenConfig{Setup: &efa.Setup{Fabric: efa.Config{Device: bad}}}).Listen(soon(t), "")
	require.NoError(t, err)
	other, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	c, err := (&efanet.Dialer{Setup: &efa.Setup{Fabric: efa.Config{Device: other}}}).Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	a, err := l.Accept()
	require.NoError(t, err)
	accepted, read := make(chan error), make(chan error)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	go func() {
		_, err := a.Read(make([]byte, 1))
		read <- err
	}()
	bad.failed.Store(true)
	_, _ = c.Write([]byte("something to poll")) // it may arrive or not
	require.ErrorIs(t, <-read, efa.ErrIO)
	require.ErrorIs(t, <-accepted, efa.ErrIO)
	require.Eventually(t, func() bool {
		_, err := a.Write([]byte("x"))
		return errors.Is(err, efa.ErrIO)
	}, time.Minute, time.Millisecond)
	require.NoError(t, a.Close())
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
}
