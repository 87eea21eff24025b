package efanet_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/internal/testenv"
)

// bare is a side without efanet, which asks a listener for what it likes.
type bare struct {
	t  *testing.T
	ep *efa.Endpoint
	to efa.Addr // the listener
}

func newBare(t *testing.T, l net.Listener, s efa.Setup) *bare {
	b := &bare{t: t}
	var err error
	b.ep, err = efa.OpenEndpoint(soon(t), s)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.ep.Close() }) // perhaps for the second time
	b.to, err = b.ep.AddressVector().Insert(l.(*efanet.Listener).Address())
	require.NoError(t, err)
	return b
}

func (b *bare) ask(data uint64, body []byte) {
	require.NoError(b.t, b.ep.SendTag(soon(b.t), b.to, tag(1, 0), body, efa.Data(data)))
}

// answer is the head of what comes on a lane.
func (b *bare) answer(lane, id uint64) uint64 {
	d, err := b.ep.NextTag(soon(b.t), efa.Match{Tag: tag(lane, id)})
	require.NoError(b.t, err)
	defer d.Release()
	return d.Data
}

// opens asks for connections with the ids from first to last, and returns how many were accepted.
func (b *bare) opens(first, last uint64) (accepted int) {
	for id := first; id <= last; id++ {
		b.ask(kOpen<<56|1, opening(b.ep, id, 1<<20))
		if b.answer(4, id)>>56 == kAccept {
			accepted++
		}
	}
	return accepted
}

func path(t *testing.T, a efa.Address, scheme string) string {
	raw, ok := a.Raw(scheme)
	require.True(t, ok)
	return raw.URI(scheme)
}

// TestAlias: an address of which one path is the sender's and the others are somebody else's counts
// as the sender's one path. What it asks does nothing to the other.
func TestAlias(t *testing.T) {
	l, err := efanet.Listen(soon(t), "127.0.0.1:0") // shm and tcp
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	legit, there := dial(t, l)
	victim, err := efa.ParseAddress(legit.LocalAddr().String())
	require.NoError(t, err)
	foe := newBare(t, l, efa.Setup{Fabric: efa.Config{DeviceName: "tcp:127.0.0.1"}})
	lie := path(t, victim, "shm") + ";" + path(t, foe.ep.Address(), "tcp")

	body := openingIn(foe.ep, 7, 1<<20, 12345)
	foe.ask(kOpen<<56|1, append(body[:20:20], lie...))
	accepted := foe.answer(4, 7)
	require.EqualValues(t, kAccept, accepted>>56)
	foe.ask(kPing<<56, append(asking(foe.ep, 99)[:8:8], lie...))
	require.EqualValues(t, kGone<<56|99, foe.answer(5, 0))
	c, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.Equal(t, path(t, foe.ep.Address(), "tcp"), c.RemoteAddr().String())
	require.NoError(t, foe.ep.SendTag(soon(t), foe.to, tag(2, accepted&(1<<48-1)), nil, efa.Data(kReset<<56)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)

	for _, way := range [][2]net.Conn{{legit, there}, {there, legit}} {
		_, err := way[0].Write([]byte("x"))
		require.NoError(t, err)
		_, err = way[1].Read(make([]byte, 1))
		require.NoError(t, err)
	}
}

// simDevices makes devices of one fabric.
func simDevices(t *testing.T) func() device.Device {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	return func() device.Device {
		d, err := f.OpenDevice(sim.DeviceConfig{})
		require.NoError(t, err)
		return d
	}
}

func on(d device.Device) efa.Setup { return efa.Setup{Fabric: efa.Config{Device: d}} }

// TestAnswersOfOne: a peer that asks without end and takes no answer has one answer under way, and
// others have theirs meanwhile.
func TestAnswersOfOne(t *testing.T) {
	next := simDevices(t)
	dev := &withholding{Device: next(), ahs: map[device.AH]device.GID{}}
	s := on(dev)
	s.Endpoint.TxDepth = 16
	s.Endpoint.Protocol.PeerTimeout = 10 * testenv.Hang // the foe lives
	l := listen(t, efanet.ListenConfig{Setup: &s})
	foe := newBare(t, l, on(next()))
	require.Equal(t, 1, foe.opens(1, 1))
	dev.from(foe.ep)
	for id := range uint64(100) {
		foe.ask(kOpen<<56|1, opening(foe.ep, 2+id, 1<<20))
		foe.ask(kPing<<56, asking(foe.ep, 99))
	}
	legit := efanet.Dialer{Setup: new(on(next()))}
	for range 3 {
		c, err := legit.Dial(soon(t), l.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	foes, err := foe.ep.Snapshot(soon(t))
	require.NoError(t, err)
	require.LessOrEqual(t, foes.Queues.Unexpected, 1, "answers under way")
	dev.from(nil)
	for id := range uint64(100) { // the rest comes when it takes them
		foe.answer(4, 2+id)
	}
}

// withholding is a device that keeps it to itself that packets to one peer have arrived.
type withholding struct {
	device.Device
	mu   sync.Mutex
	to   device.GID // the peer's; zero: nobody's
	ahs  map[device.AH]device.GID
	sent []uint64
	kept []device.Completion
}

// from begins to withhold, or ends it if ep is nil.
func (d *withholding) from(ep *efa.Endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = device.GID{}
	if ep != nil {
		raw, _ := ep.Address().Raw("sim")
		d.to = raw.GID()
	}
}

func (d *withholding) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	return &withholdingQP{qp, d}, err
}

type withholdingQP struct {
	device.QP
	dev *withholding
}

func (q *withholdingQP) CreateAH(gid device.GID) (device.AH, error) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	ah, err := q.QP.CreateAH(gid)
	q.dev.ahs[ah] = gid
	return ah, err
}

func (q *withholdingQP) PostSend(wr *device.SendWR) error {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	wr.Prompt = false
	err := q.QP.PostSend(wr)
	if err == nil && q.dev.to == q.dev.ahs[wr.AH] {
		q.dev.sent = append(q.dev.sent, wr.ID)
	}
	return err
}

func (q *withholdingQP) Poll(c []device.Completion) int {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	if q.dev.to == (device.GID{}) && len(q.dev.kept) > 0 {
		n := copy(c, q.dev.kept)
		q.dev.kept = q.dev.kept[n:]
		return n
	}
	n := 0
	for _, x := range c[:q.QP.Poll(c)] {
		if i := slices.Index(q.dev.sent, x.ID); x.Op == device.OpSend && i >= 0 {
			q.dev.sent = slices.Delete(q.dev.sent, i, i+1)
			if q.dev.to != (device.GID{}) {
				q.dev.kept = append(q.dev.kept, x)
				continue
			}
		}
		c[n] = x
		n++
	}
	return n
}

// TestKnownPeerIsHeard: what a known peer asks does not wait behind what others ask, even if that
// is taken no more, as here, where readers have all places for receives.
func TestKnownPeerIsHeard(t *testing.T) {
	l := listen(t, efanet.ListenConfig{Setup: &efa.Setup{Endpoint: efa.EndpointConfig{RxDepth: 6}}})
	var dialed []conn
	var readers sync.WaitGroup
	reading := make(chan struct{})
	for range 10 {
		a, b := dial(t, l)
		dialed = append(dialed, a)
		readers.Go(func() {
			<-reading
			_, err := b.Read(make([]byte, 1))
			assert.NoError(t, err)
		})
	}
	foe := newBare(t, l, efa.Setup{})
	close(reading)
	for range 50 {
		foe.ask(99<<56, nil)
	}
	c, err := efanet.Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	for _, a := range dialed {
		_, err := a.Write([]byte("x"))
		require.NoError(t, err)
	}
	readers.Wait()
	require.NoError(t, c.Close())
}

// TestBacklogIsShared: connections of one peer that wait for Accept leave room for those of others.
func TestBacklogIsShared(t *testing.T) {
	l := listen(t, efanet.ListenConfig{Backlog: 8})
	foe := newBare(t, l, efa.Setup{})
	require.Equal(t, 6, foe.opens(1, 20))
	c, err := efanet.Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	c, err = l.Accept()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Equal(t, 1, foe.opens(21, 30))
}

// TestConnectionsAreShared: one peer's connections leave room for those of others.
func TestConnectionsAreShared(t *testing.T) {
	if raceEnabled {
		t.Skip("thousands of connections take long")
	}
	s := efa.Setup{Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerMemory: 4 << 30}}}
	l := listen(t, efanet.ListenConfig{Setup: &s})
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	foe := newBare(t, l, efa.Setup{})
	n := 0
	for foe.opens(uint64(n+1), uint64(n+1)) == 1 {
		n++
	}
	require.Less(t, n, 5000)
	c, err := efanet.Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
	<-accepting
}

// TestClientsComeAndGo: clients that came, asked and went leave no address behind, ten times as many
// as are kept, and each is served. So do those that only ask about connections that are none.
func TestClientsComeAndGo(t *testing.T) {
	const kept = 16
	t.Cleanup(efanet.KeepIdle(kept))
	next := simDevices(t)
	s := on(next())
	l := listen(t, efanet.ListenConfig{Setup: &s})
	for i := range 10 * kept {
		client := newBare(t, l, on(next()))
		if i%2 == 0 {
			client.ask(kPing<<56, asking(client.ep, 99))
			require.EqualValues(t, kGone<<56|99, client.answer(5, 0))
		} else {
			require.Equal(t, 1, client.opens(1, 1))
			c, err := l.Accept()
			require.NoError(t, err)
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				assert.EqualValues(t, kPing, client.answer(1, 0)>>56) // as Close does
			}()
			require.NoError(t, client.ep.SendTag(soon(t), client.to, tag(2, efanet.ID(c)), nil, efa.Data(kFin<<56)))
			require.NoError(t, client.ep.SendTag(soon(t), client.to, tag(4, efanet.ID(c)), nil, efa.Data(kStop<<56)))
			require.NoError(t, c.Close())
			<-asked
		}
		require.NoError(t, client.ep.Close())
	}
	require.Eventually(t, func() bool { return efanet.Known(l) <= kept }, testenv.Hang, time.Millisecond)
}

// TestAbandonedDials: dials to a peer that does not answer, and that their callers have given up, leave
// room for those to others.
func TestAbandonedDials(t *testing.T) {
	if raceEnabled {
		t.Skip("thousands of connections take long")
	}
	var d efanet.Dialer
	d.Setup = &efa.Setup{Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerMemory: 4 << 30}}}
	l := listen(t, efanet.ListenConfig{})
	first, err := d.Dial(soon(t), l.Addr().String()) // has the endpoint live on
	require.NoError(t, err)
	t.Cleanup(func() { _ = first.Close() })
	silent := endpoint(t)
	n := 0
	for ; ; n++ {
		ctx, cancel := context.WithCancel(soon(t))
		abandoned := make(chan error)
		go func() {
			_, err := d.Dial(ctx, silent.Address().String())
			cancel() // there may be no OPEN
			abandoned <- err
		}()
		if m, err := silent.NextTag(ctx, efa.AnyTag); err == nil { // the OPEN
			m.Release()
		}
		cancel()
		if err = <-abandoned; !errors.Is(err, context.Canceled) {
			break
		}
	}
	require.ErrorContains(t, err, "as many connections")
	require.Less(t, n, 5000)
	c, err := d.Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
