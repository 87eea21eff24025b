package efanet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
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

// holding is a device that can keep a packet back, so that later ones overtake it.
type holding struct {
	device.Device
	look []byte       // the next packet with it
	hold atomic.Bool  // is kept back
	late atomic.Bool  // until then
	seen atomic.Int64 // packets with look
}

type holdingQP struct {
	device.QP
	dev  *holding
	kept *device.SendWR
}

func (d *holding) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	return &holdingQP{QP: qp, dev: d}, err
}

func (q *holdingQP) PostSend(wr *device.SendWR) error {
	wr.Prompt = false
	if bytes.Contains(wr.Header, q.dev.look) {
		q.dev.seen.Add(1)
		if q.dev.hold.CompareAndSwap(true, false) {
			kept := *wr
			kept.Header = bytes.Clone(wr.Header)
			q.kept = &kept
			return nil
		}
	}
	return q.QP.PostSend(wr)
}

func (q *holdingQP) Poll(c []device.Completion) int {
	if q.kept != nil && q.dev.late.Load() && q.QP.PostSend(q.kept) == nil {
		q.kept = nil
	}
	return q.QP.Poll(c)
}

// TestCloseInOrder: what is under way when the connection closes has arrived before Close takes it for
// that, since packets may overtake each other and a process may exit when Close returns.
func TestCloseInOrder(t *testing.T) {
	device := simDevices(t)
	l, err := (&efanet.ListenConfig{Setup: &efa.Setup{Fabric: efa.Config{Device: device()}}}).Listen(soon(t), "")
	require.NoError(t, err)
	dev := &holding{Device: device(), look: binary.LittleEndian.AppendUint64(nil, tag(2, 1))}
	c, err := (&efanet.Dialer{Setup: &efa.Setup{Fabric: efa.Config{Device: dev}}}).Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	a, err := l.Accept()
	require.NoError(t, err)
	dev.hold.Store(true)
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	require.False(t, dev.hold.Load())
	require.NoError(t, c.Close())
	select {
	case <-efanet.Flushed(c):
		t.Fatal("something is under way yet")
	default:
	}
	dev.late.Store(true)
	_, err = a.Write([]byte("something to poll"))
	require.NoError(t, err)
	<-efanet.Flushed(c)
	got, err := io.ReadAll(a)
	require.NoError(t, err)
	require.Equal(t, "x", string(got))
	require.NoError(t, a.Close())
	require.NoError(t, l.Close())
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

// stalling is a device of which one look takes a while.
type stalling struct {
	holding
	stall  atomic.Bool
	begun  chan struct{} // closed: that look has begun
	goesOn chan struct{} // closed: it is to end
}

type stallingQP struct {
	device.QP
	dev *stalling
}

func (d *stalling) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.holding.OpenQP(c)
	return &stallingQP{qp, d}, err
}

func (q *stallingQP) Poll(c []device.Completion) int {
	if q.dev.stall.CompareAndSwap(true, false) {
		close(q.dev.begun)
		<-q.dev.goesOn
	}
	return q.QP.Poll(c)
}

// TestWriteHandsOver: when Write returns the device has the bytes, also if another goroutine runs the endpoint
// and is slow: the process may end then.
func TestWriteHandsOver(t *testing.T) {
	device := simDevices(t)
	l, err := (&efanet.ListenConfig{Setup: &efa.Setup{Fabric: efa.Config{Device: device()}}}).Listen(soon(t), "")
	require.NoError(t, err)
	dev := &stalling{
		holding: holding{Device: device(), look: binary.LittleEndian.AppendUint64(nil, tag(2, 1))},
		begun:   make(chan struct{}), goesOn: make(chan struct{}),
	}
	c, err := (&efanet.Dialer{Setup: &efa.Setup{Fabric: efa.Config{Device: dev}}}).Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	a, err := l.Accept()
	require.NoError(t, err)
	dev.stall.Store(true)
	read := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1)) // it looks at the device
		read <- err
	}()
	<-dev.begun
	go func() {
		<-clock.NewTimer(50 * time.Millisecond).C // after which Write has begun, but for a busy machine
		close(dev.goesOn)
	}()
	_, err = c.Write(make([]byte, 10_000))
	require.NoError(t, err)
	require.EqualValues(t, 3, dev.seen.Load(), "the device has fewer frames than Write has counted")
	_, err = a.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, <-read)
	require.NoError(t, a.Close())
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
}

// deaf is a device that hears nothing once a transfer has begun.
type deaf struct {
	device.Device
	bulk []byte // is in the first packet of one
	able atomic.Bool
	deaf atomic.Bool
}

type deafQP struct {
	device.QP
	dev *deaf
}

func (d *deaf) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	return &deafQP{qp, d}, err
}

func (q *deafQP) PostSend(wr *device.SendWR) error {
	if q.dev.able.Load() && bytes.Contains(wr.Header, q.dev.bulk) {
		q.dev.deaf.Store(true)
	}
	return q.QP.PostSend(wr)
}

func (q *deafQP) Poll(c []device.Completion) int {
	if q.dev.deaf.Load() {
		return 0
	}
	return q.QP.Poll(c)
}

// TestReadOfStandstill: a Read whose bytes have begun to come and come no more ends by its deadline, set before
// or meanwhile, and by Close.
func TestReadOfStandstill(t *testing.T) {
	for name, end := range map[string]func(net.Conn) error{
		"deadline": func(c net.Conn) error { return c.SetReadDeadline(time.Unix(1, 0)) },
		"Close":    net.Conn.Close,
	} {
		for _, limited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/limited=%v", name, limited), func(t *testing.T) {
				device := simDevices(t)
				l, err := (&efanet.ListenConfig{Setup: &efa.Setup{
					Fabric:   efa.Config{Device: device()},
					Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: time.Hour}},
				}}).Listen(soon(t), "")
				require.NoError(t, err)
				dev := &deaf{Device: device(), bulk: binary.LittleEndian.AppendUint64(nil, tag(3, 1))}
				c, err := (&efanet.Dialer{Setup: &efa.Setup{Fabric: efa.Config{Device: dev}}}).Dial(soon(t), l.Addr().String())
				require.NoError(t, err)
				a, err := l.Accept()
				require.NoError(t, err)
				dev.able.Store(true)
				if limited {
					require.NoError(t, a.SetReadDeadline(clock.Deadline(time.Hour)))
				}
				wrote, read := make(chan struct{}), make(chan error, 1)
				go func() {
					defer close(wrote)
					_, _ = c.Write(make([]byte, 1<<20))
				}()
				go func() {
					_, err := a.Read(make([]byte, 1<<20))
					read <- err
				}()
				require.Eventually(t, dev.deaf.Load, testenv.Hang, time.Millisecond)
				began := clock.System.Now()
				require.NoError(t, end(a))
				select {
				case err = <-read:
				case <-clock.NewTimer(testenv.Hang).C:
					t.Fatal("Read still waits")
				}
				if testenv.All() && name == "deadline" {
					require.Less(t, clock.System.Now().Sub(began), 150*time.Millisecond)
				}
				if name == "deadline" {
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				} else {
					require.ErrorIs(t, err, net.ErrClosed)
				}
				dev.able.Store(false)
				dev.deaf.Store(false)
				_, _ = a.Write([]byte("something to poll"))
				_ = a.Close()
				require.NoError(t, c.Close())
				<-wrote
				require.NoError(t, l.Close())
			})
		}
	}
}

// TestGivenUp: a transfer that its deadline ends in the middle, of more than may go on from a copy, ends the
// offer alone, and counts in no n.
func TestGivenUp(t *testing.T) {
	for !givesUp(t) { // the deadline came too late
	}
}

// givesUp reports whether the transfer was given up, and has not left before.
func givesUp(t *testing.T) bool {
	device := simDevices(t)
	l, err := (&efanet.ListenConfig{Setup: &efa.Setup{Fabric: efa.Config{Device: device()}}}).Listen(soon(t), "")
	require.NoError(t, err)
	dev := &deaf{Device: device(), bulk: binary.LittleEndian.AppendUint64(nil, tag(3, 1))}
	c, err := (&efanet.Dialer{Setup: &efa.Setup{
		Fabric:   efa.Config{Device: dev},
		Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{DetachLimit: 1, PeerTimeout: time.Hour}},
	}}).Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	a, err := l.Accept()
	require.NoError(t, err)
	dev.able.Store(true)
	wrote, read := make(chan int, 1), make(chan string, 1)
	go func() {
		n, err := c.Write(make([]byte, 1<<20))
		assert.True(t, n == 1<<20 || errors.Is(err, os.ErrDeadlineExceeded))
		wrote <- n
	}()
	go func() {
		p := make([]byte, 1<<20)
		n, err := a.Read(p)
		assert.NoError(t, err)
		read <- string(p[:n])
	}()
	require.Eventually(t, func() bool { return dev.deaf.Load() && efanet.Receives(soon(t), a) }, testenv.Hang, time.Millisecond)
	require.NoError(t, c.SetWriteDeadline(time.Unix(1, 0)))
	dev.able.Store(false)
	dev.deaf.Store(false)
	_, err = a.Write([]byte("something to poll"))
	require.NoError(t, err)
	n := <-wrote
	if n == 0 {
		require.NoError(t, c.SetWriteDeadline(time.Time{}))
		_, err = c.Write([]byte("word"))
		require.NoError(t, err)
		require.Equal(t, "word", <-read)
	} else {
		<-read
	}
	require.NoError(t, c.Close())
	require.NoError(t, a.Close())
	require.NoError(t, l.Close())
	return n == 0
}
