package efanet_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
)

// broken is a socket whose Accept fails.
type broken struct {
	net.Listener
	err error
}

func (b broken) Accept() (net.Conn, error) { return nil, b.err }
func (b broken) Close() error              { return nil }

// TestAddressNotGiven: when the endpoint's address is given out no more, Accept says so.
func TestAddressNotGiven(t *testing.T) {
	l := listen(t, efanet.ListenConfig{})
	why := errors.New("the socket has failed")
	efanet.Give(l, broken{err: why})
	_, err := l.Accept()
	require.ErrorIs(t, err, why)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "accept", op.Op)
}

// TestGivable: the address of an endpoint that this host alone can reach is not given out to others.
func TestGivable(t *testing.T) {
	for _, all := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		_, err := efanet.Listen(soon(t), all)
		require.ErrorIs(t, err, efa.ErrInvalid, all)
		require.ErrorContains(t, err, "listen at 127.0.0.1", all)
	}
	const shm, card = "shm://[fe80::11ff:fe00:a01]:4711:5", "efa://[fe80::11ff:fe00:a02]:4711:5"
	const loopback, host = "tcp://[::ffff:127.0.0.1]:4711:5", "tcp://[::ffff:192.0.2.2]:4711:5"
	for text, ok := range map[string]bool{
		shm: false, loopback: false, shm + ";" + loopback: false, "tcp://[::1]:4711:5": false,
		shm + ";" + host: true, host: true, shm + ";" + card + ";" + loopback: true,
	} {
		a, err := efa.ParseAddress(text)
		require.NoError(t, err)
		if err = efanet.Givable(a, &net.TCPAddr{IP: net.IPv6unspecified}); ok {
			require.NoError(t, err, text)
		} else {
			require.ErrorIs(t, err, efa.ErrInvalid, text)
		}
		require.NoError(t, efanet.Givable(a, &net.TCPAddr{IP: net.IPv6loopback}))
	}
}

// slow is a device whose first queue pair takes until it is let go.
type slow struct {
	device.Device
	begun, open chan struct{}
}

func (d *slow) OpenQP(c device.QPConfig) (device.QP, error) {
	close(d.begun)
	<-d.open
	return d.Device.OpenQP(c)
}

// TestDialsWaitForThemselves: a dial whose context ends while another one opens the endpoint ends.
func TestDialsWaitForThemselves(t *testing.T) {
	next := simDevices(t)
	s := on(next())
	l := listen(t, efanet.ListenConfig{Setup: &s})
	dev := &slow{next(), make(chan struct{}), make(chan struct{})}
	d := efanet.Dialer{Setup: new(on(dev))}
	dialed := make(chan error)
	go func() {
		c, err := d.Dial(soon(t), l.Addr().String())
		if err == nil {
			err = c.Close()
		}
		dialed <- err
	}()
	<-dev.begun
	ctx, cancel := context.WithCancel(soon(t))
	abandoned := make(chan error)
	go func() {
		_, err := d.Dial(ctx, l.Addr().String())
		abandoned <- err
	}()
	cancel()
	require.ErrorIs(t, <-abandoned, context.Canceled)
	close(dev.open)
	require.NoError(t, <-dialed)
}

// TestDialAfterFailure: when the endpoint of a Dialer has failed, the next dial opens another one,
// although connections of the former are not closed yet.
func TestDialAfterFailure(t *testing.T) {
	next := simDevices(t)
	s := on(next())
	l := listen(t, efanet.ListenConfig{Setup: &s})
	bad := &failing{Device: next()}
	d := efanet.Dialer{Setup: new(on(bad))}
	c, err := d.Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	a, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	bad.failed.Store(true)
	_, _ = a.Write([]byte("something to poll"))
	_, err = c.Read(make([]byte, 100))
	require.ErrorIs(t, err, efa.ErrIO)
	bad.failed.Store(false)
	for { // until the endpoint's other calls have heard, too
		again, err := d.Dial(soon(t), l.Addr().String())
		if err == nil {
			require.NoError(t, again.Close())
			return
		}
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
}
