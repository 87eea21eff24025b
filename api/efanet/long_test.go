package efanet_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// beginner is a side that sends the beginnings of messages alone.
type beginner struct {
	*bare
	fabric *sim.Fabric
	ctx    context.Context
	sends  sync.WaitGroup
}

// newFabric makes setups on devices of a fabric of its own.
func newFabric(t *testing.T, mtu int) (*sim.Fabric, func() efa.Setup) {
	f, err := sim.New(sim.Config{MTU: mtu})
	require.NoError(t, err)
	return f, func() efa.Setup {
		d, err := f.OpenDevice(sim.DeviceConfig{})
		require.NoError(t, err)
		return on(d)
	}
}

func newBeginner(t *testing.T, f *sim.Fabric, l net.Listener, s efa.Setup) *beginner {
	s.Endpoint.Protocol.MaxMedium, s.Endpoint.Protocol.MinRead = 1, 1<<40 // long messages go by LONGCTS
	ctx, cancel := context.WithCancel(soon(t))
	b := &beginner{bare: newBare(t, l, s), fabric: f, ctx: ctx}
	raw, _ := b.ep.Address().Raw("sim")
	_, err := f.AddRule(sim.Rule{
		Fault: sim.FaultDelay, From: sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}, Delay: time.Hour,
		Types: []byte{byte(wire.TypeCTSData)},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		_ = b.ep.Close()
		b.sends.Wait()
	})
	return b
}

// begin sends the beginning of a message.
func (b *beginner) begin(lane, id, data uint64, n int) {
	b.sends.Go(func() { _ = b.ep.SendTag(b.ctx, b.to, tag(lane, id), make([]byte, n), efa.Data(data)) })
}

// begun waits until the other side has granted the rest of a message, which does not come.
func (b *beginner) begun() {
	require.Eventually(b.t, func() bool { return b.fabric.Count(sim.FaultDelay) > 0 }, testenv.Hang, time.Millisecond)
}

// opened opens a connection to the listener, and returns the listener's id of it.
func (b *beginner) opened(l net.Listener) (net.Conn, uint64) {
	b.ask(kOpen<<56|1, opening(b.ep, strangersID, 1<<20))
	id := b.answer(4, strangersID) & (1<<48 - 1)
	c, err := l.Accept()
	require.NoError(b.t, err)
	require.NoError(b.t, c.SetDeadline(clock.Deadline(testenv.Hang)))
	b.t.Cleanup(func() {
		require.NoError(b.t, b.ep.SendTag(soon(b.t), b.to, tag(2, id), nil, efa.Data(kFin<<56)))
		require.NoError(b.t, b.ep.SendTag(soon(b.t), b.to, tag(4, id), nil, efa.Data(kStop<<56)))
		_ = c.Close()
	})
	return c, id
}

// dialOn opens a connection to a listener from an endpoint of its own.
func dialOn(t *testing.T, l net.Listener, s efa.Setup) (here, there net.Conn) {
	c, err := (&efanet.Dialer{Setup: &s}).Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	a, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	for _, x := range []net.Conn{c, a} {
		require.NoError(t, x.SetDeadline(clock.Deadline(testenv.Hang)))
	}
	return c, a
}

// TestHalfFrame: a peer that sends the beginning of a long message in the place of a frame ends its
// connection, and takes nothing of the memory that the endpoint lends to all.
func TestHalfFrame(t *testing.T) {
	for name, c := range map[string]struct {
		lane uint64
		wait func(net.Conn) error
	}{
		"reader": {2, func(c net.Conn) error {
			_, err := c.Read(make([]byte, 10))
			return err
		}},
		"writer": {4, func(c net.Conn) error {
			_, err := c.Write(make([]byte, 2<<20))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f, setup := newFabric(t, 0)
			s := setup()
			s.Endpoint.NextMemory = 1 << 20
			l := listen(t, efanet.ListenConfig{Setup: &s})
			a, b := dialOn(t, l, setup())
			foe := newBeginner(t, f, l, setup())
			foes, id := foe.opened(l)
			foe.begin(c.lane, id, kData<<56, 1<<20)
			ended := make(chan error, 1)
			go func() { ended <- c.wait(foes) }()
			foe.begun()
			for range 3 {
				_, err := a.Write([]byte("x"))
				require.NoError(t, err)
				_, err = b.Read(make([]byte, 1))
				require.NoError(t, err)
			}
			require.Error(t, <-ended)
		})
	}
}

// TestHalfAnswer: so does who answers a dial in that way.
func TestHalfAnswer(t *testing.T) {
	f, setup := newFabric(t, 0)
	own := setup()
	own.Endpoint.NextMemory = 1 << 20
	d := &efanet.Dialer{Setup: &own}
	s := setup()
	l := listen(t, efanet.ListenConfig{Setup: &s})
	a, err := d.Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	b, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	require.NoError(t, a.SetDeadline(clock.Deadline(testenv.Hang)))

	foe := newBeginner(t, f, l, setup())
	dialed := make(chan error, 1)
	go func() {
		_, err := d.Dial(soon(t), foe.ep.Address().String())
		dialed <- err
	}()
	q, err := foe.ep.NextTag(soon(t), efa.Match{Tag: tag(1, 0)})
	require.NoError(t, err)
	foe.to, err = foe.ep.Sender(q.Message)
	require.NoError(t, err)
	id := binary.LittleEndian.Uint64(q.Body)
	q.Release()
	foe.begin(4, id, kAccept<<56|1, 1<<20)
	foe.begun()
	_, err = b.Write([]byte("x"))
	require.NoError(t, err)
	_, err = a.Read(make([]byte, 1))
	require.NoError(t, err)
	err = <-dialed
	assert.Error(t, err)
	require.False(t, errors.Is(err, context.DeadlineExceeded))
}

// TestHalfJoined: a frame of which only the beginning comes holds no Read beyond its deadline, nor Close,
// also if PRESS has it joined before: it is no frame.
func TestHalfJoined(t *testing.T) {
	f, setup := newFabric(t, 2048)
	s := setup()
	l := listen(t, efanet.ListenConfig{Setup: &s})
	foe := newBeginner(t, f, l, setup())
	c, id := foe.opened(l)
	foe.begin(2, id, kData<<56, 4000)
	require.Eventually(t, func() bool {
		n, err := efanet.Unread(soon(t), c)
		require.NoError(t, err)
		return n == 1
	}, testenv.Hang, time.Millisecond)
	require.NoError(t, foe.ep.SendTag(soon(t), foe.to, tag(5, 0), nil, efa.Data(kPress<<56|id)))
	foe.begun()
	require.NoError(t, c.SetReadDeadline(time.Unix(1, 0)))
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 10))
		ended <- err
	}()
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-clock.NewTimer(testenv.Hang).C:
		t.Fatal("Read still waits")
	}
}

// TestHalfQuestions: peers that send the beginnings of long questions, as many as they like, keep nobody from
// being heard.
func TestHalfQuestions(t *testing.T) {
	f, setup := newFabric(t, 0)
	s := setup()
	l := listen(t, efanet.ListenConfig{Setup: &s})
	foe := newBeginner(t, f, l, setup())
	for range 100 { // beyond what is posted for questions
		foe.begin(1, 0, kOpen<<56|1, 1<<20)
	}
	foe.begun()
	for range 3 {
		dialOn(t, l, setup())
	}
}

// TestSmallPackets: where packets are smaller than the largest frame, frames are as long as those.
func TestSmallPackets(t *testing.T) {
	for _, mtu := range []int{512, 2048} {
		_, setup := newFabric(t, mtu)
		s := setup()
		l := listen(t, efanet.ListenConfig{Setup: &s})
		a, b := dialOn(t, l, setup())
		p := random(20_000)
		_, err := a.Write(p)
		require.NoError(t, err)
		got := make([]byte, len(p))
		_, err = io.ReadFull(b, got)
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	_, setup := newFabric(t, 200)
	s := setup()
	_, err := (&efanet.ListenConfig{Setup: &s}).Listen(soon(t), "")
	require.ErrorIs(t, err, efa.ErrNotSupported)
}
