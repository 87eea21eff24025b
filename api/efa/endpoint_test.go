package efa_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/wire"
)

// TestOpenEndpoint: one call makes all, and Close closes all, or says what is in use and
// does it when called again.
func TestOpenEndpoint(t *testing.T) {
	ctx := testContext(t)
	ep, err := efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{DeviceName: "shm:" + filepath.Join(t.TempDir(), "fabric")}})
	require.NoError(t, err)
	require.Same(t, ep.SendQueue(), ep.RecvQueue())
	self, err := ep.AddressVector().Insert(ep.Address())
	require.NoError(t, err)
	_, err = ep.PostSend(&efa.SendReq{To: self, Token: 3})
	require.NoError(t, err)
	_, err = ep.Recv(ctx, nil)
	require.NoError(t, err)
	_, err = ep.PostRecv(&efa.RecvReq{Token: 4})
	require.NoError(t, err)
	dom := ep.Domain()
	mem, err := dom.Alloc(100, 0)
	require.NoError(t, err)
	require.ErrorIs(t, ep.Close(), efa.ErrBusy, "there is memory")
	require.ErrorIs(t, ep.Send(ctx, self, nil), efa.ErrClosed)
	require.NoError(t, mem.Close())
	require.NoError(t, ep.Close())
	require.NoError(t, ep.Close())
	require.ErrorIs(t, second(dom.Fabric().OpenDomain(efa.DomainConfig{})), efa.ErrClosed)
	require.ErrorIs(t, second(ep.AddressVector().Insert(ep.Address())), efa.ErrClosed)
	var cs [4]efa.Completion
	require.Equal(t, 2, ep.SendQueue().TryRead(cs[:]), "outcomes are there after Close")
	require.ErrorIs(t, cs[1].Err, efa.ErrClosed)
}

// TestOpenEndpointFails: what was made before a failure is closed.
func TestOpenEndpointFails(t *testing.T) {
	dev, err := efa.OpenDevice("shm:" + filepath.Join(t.TempDir(), "fabric"))
	require.NoError(t, err)
	fabric := efa.Config{Device: dev}
	for _, s := range []efa.Setup{
		{Fabric: efa.Config{DeviceName: "no such"}},
		{Fabric: fabric, Domain: efa.DomainConfig{Shards: -1}},
		{Fabric: fabric, Endpoint: efa.EndpointConfig{TxDepth: -1}},
	} {
		_, err := efa.OpenEndpoint(t.Context(), s)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = efa.OpenEndpoint(ctx, efa.Setup{Fabric: fabric})
	require.ErrorIs(t, err, context.Canceled)
	ep, err := efa.OpenEndpoint(t.Context(), efa.Setup{Fabric: fabric, Endpoint: efa.EndpointConfig{TxDepth: 2}})
	require.NoError(t, err)
	require.NoError(t, ep.Close())
	require.NoError(t, dev.Close(), "it was given, and nothing is open on it")
}

// frail is a device whose queue pairs end when told to.
type frail struct {
	device.Device
	ends    atomic.Int64 // how many queue pairs are to end
	refuses atomic.Bool
	deaf    atomic.Bool // nothing arrives
	notify  atomic.Value
}

type frailQP struct {
	device.QP
	d     *frail
	ended bool
}

func (d *frail) OpenQP(c device.QPConfig) (device.QP, error) {
	if d.refuses.Load() {
		return nil, device.ErrClosed // as after a reset
	}
	d.notify.Store(c.Notify)
	qp, err := d.Device.OpenQP(c)
	return &frailQP{QP: qp, d: d}, err
}

func (d *frail) end() {
	d.ends.Add(1)
	d.notify.Load().(func())()
}

func (q *frailQP) Arm() bool { return q.d.ends.Load() == 0 && q.QP.Arm() }

func (q *frailQP) Poll(c []device.Completion) int {
	if n := q.d.ends.Load(); n > 0 && !q.ended && q.d.ends.CompareAndSwap(n, n-1) {
		q.ended = true
		c[0] = device.Completion{Op: device.OpFatal, Status: device.StatusQPInternal}
		return 1
	}
	if q.ended || q.d.deaf.Load() {
		return 0
	}
	return q.QP.Poll(c)
}

func (q *frailQP) PostSend(wr *device.SendWR) error {
	if q.ended {
		return device.ErrClosed
	}
	return q.QP.PostSend(wr)
}

// fail ends the queue pair, and waits for the event. Peers may have failed before.
func (d *frail) fail(t *testing.T, s *side) {
	t.Helper()
	d.end()
	for ev := (efa.Event{}); ev.Kind != efa.DeviceFailed; {
		var err error
		ev, err = s.ep.NextEvent(testContext(t))
		require.NoError(t, err)
		require.Contains(t, []efa.EventKind{efa.PeerFailed, efa.DeviceFailed}, ev.Kind)
	}
}

// TestEnableAgain: after a fatal event every operation has one outcome, and the endpoint can
// be enabled again: at the same place with a new connid, of which an event tells. A peer
// that inserts the new address talks to it; the old one is dead. It can fail again.
func TestEnableAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabric")
	f := newFabric(t, sim.Config{Seed: 4})
	kinds := map[string]func() efa.Device{
		"sim": func() efa.Device { return newDevice(t, f) },
		"shm": func() efa.Device {
			d, err := efa.OpenDevice("shm:" + dir)
			require.NoError(t, err)
			return d
		},
		"tcp": func() efa.Device {
			d, err := efa.OpenDevice("tcp")
			require.NoError(t, err)
			return d
		},
	}
	for kind, scheme := range map[string]string{"sim": "sim", "shm": "shm", "tcp": "tcp", "joined": "sim"} {
		t.Run(kind, func(t *testing.T) {
			dev := &frail{Device: kinds[scheme]()}
			on, other := efa.Device(dev), kinds[scheme]()
			if kind == "joined" {
				more, err := f.OpenDevice(sim.DeviceConfig{Name: "more", Net: 7})
				require.NoError(t, err)
				on, err = efa.JoinDevices(more, dev)
				require.NoError(t, err)
			}
			t.Cleanup(func() {
				require.NoError(t, on.Close())
				require.NoError(t, other.Close())
			})
			dom := domainOn(t, on, efa.DomainConfig{})
			q := newQueue(t, dom, 64)
			s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
			p := open(t, other, efa.DomainConfig{})
			ctx := testContext(t)
			require.ErrorIs(t, s.ep.Enable(ctx), efa.ErrBadState)
			toP, err := s.av.Insert(p.ep.Address())
			require.NoError(t, err)
			var old efa.Addr
			for round := range 3 {
				toS, err := p.av.Insert(s.ep.Address())
				require.NoError(t, err)
				if round > 0 {
					require.NotEqual(t, old, toS)
				}
				old = toS
				for _, way := range []struct {
					from, to *side
					h        efa.Addr
				}{{s, p, toP}, {p, s, toS}} {
					for n := range 20 {
						op := start(t, way.from, &efa.SendReq{To: way.h, Buf: pattern(n * 500)})
						m, err := way.to.ep.Recv(ctx, make([]byte, 10_000))
						require.NoError(t, err)
						require.Equal(t, n*500, m.N)
						done(t, op)
					}
				}
				const posted = 5
				for range posted {
					_, err = s.ep.PostRecv(&efa.RecvReq{Tagged: true})
					require.NoError(t, err)
				}
				was := s.ep.Address()
				dev.fail(t, s)
				require.ErrorIs(t, s.ep.Send(ctx, toP, nil), efa.ErrIO)
				dev.refuses.Store(true)
				require.ErrorIs(t, s.ep.Enable(ctx), device.ErrClosed)
				dev.refuses.Store(false)
				require.NoError(t, s.ep.Enable(ctx))
				require.Zero(t, dev.ends.Load())
				var cs [16]efa.Completion
				n, err := q.Read(ctx, cs[:])
				require.NoError(t, err)
				require.Equal(t, posted, n, "before Enable returns")
				for _, c := range cs[:n] {
					require.ErrorIs(t, c.Err, efa.ErrIO)
				}
				ev, ok := s.ep.TryEvent()
				require.True(t, ok)
				require.Equal(t, efa.EnabledAgain, ev.Kind)
				require.True(t, ev.Address.Equal(s.ep.Address()))
				for _, scheme := range []string{scheme, "more"} {
					before, has := was.Raw(scheme)
					after, still := s.ep.Address().Raw(scheme)
					require.Equal(t, has, still)
					require.Equal(t, before.GID(), after.GID())
					require.Equal(t, before.QPN(), after.QPN())
					require.True(t, !has || before.ConnID() != after.ConnID())
				}
			}
			require.Error(t, p.ep.Send(ctx, old, make([]byte, 100), efa.Complete(efa.Delivered)), "of a former one")
		})
	}
}

// TestEnableAgainBesideOthers: goroutines send all the time while the endpoint fails and is
// enabled again. Each call returns, with success or ErrIO, and nothing is lost of what
// succeeded after.
func TestEnableAgainBesideOthers(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			dev := &frail{Device: newDevice(t, newFabric(t, sim.Config{}))}
			dom := domainOn(t, dev, efa.DomainConfig{Progress: mode})
			q := newQueue(t, dom, 1<<10)
			s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, TxDepth: 16})
			ctx := testContext(t)
			var stop atomic.Bool
			var all sync.WaitGroup
			var posted, ended, total atomic.Int64
			t.Cleanup(func() { // also if the test fails: they would slow down all others
				stop.Store(true)
				all.Wait()
			})
			nobody, err := s.av.Insert(simAddress(5)) // no endpoint is there
			require.NoError(t, err)
			for range 3 {
				all.Go(func() {
					for !stop.Load() {
						if s.ep.Send(ctx, nobody, nil) == nil { // ErrIO, or there is no such queue pair
							t.Error("sent to nobody")
						}
						if _, err := s.ep.PostSend(&efa.SendReq{To: nobody}); err == nil {
							posted.Add(1)
						}
						runtime.Gosched() // a failed endpoint refuses at once
					}
				})
			}
			read := make(chan struct{})
			go func() {
				defer close(read)
				var cs [64]efa.Completion
				for ended.Load() != total.Load() || total.Load() == 0 {
					n, err := q.Read(ctx, cs[:])
					if err != nil {
						return
					}
					ended.Add(int64(n))
				}
			}()
			for range less(40) {
				dev.fail(t, s)
				require.NoError(t, s.ep.Enable(ctx))
				for ev := (efa.Event{}); ev.Kind != efa.EnabledAgain; {
					ev, err = s.ep.NextEvent(ctx)
					require.NoError(t, err)
					require.Contains(t, []efa.EventKind{efa.EnabledAgain, efa.PeerFailed, efa.DeviceFailed}, ev.Kind)
				}
			}
			stop.Store(true)
			all.Wait()
			total.Store(posted.Load() + 1)
			_, err = s.ep.PostSend(&efa.SendReq{To: nobody}) // the reader's end
			for ; errors.Is(err, efa.ErrAgain); _, err = s.ep.PostSend(&efa.SendReq{To: nobody}) {
				runtime.Gosched() // until there is a place: the last ones are not read yet
			}
			require.NoError(t, err)
			<-read
			require.Equal(t, total.Load(), ended.Load())
		})
	}
}

// TestCloseRaces closes an endpoint while many goroutines use it in every way:
// each accepted operation has one outcome, and nobody is left waiting.
func TestCloseRaces(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			da := openDomain(t, f, efa.DomainConfig{Progress: mode})
			b := newEndpoint(t, openDomain(t, f, efa.DomainConfig{Progress: mode}), efa.EndpointConfig{})
			for round := range less(6) {
				closeRace(t, da, b, round)
			}
		})
	}
}

func closeRace(t *testing.T, dom *efa.Domain, other *side, round int) {
	q := newQueue(t, dom, 64)
	sends, recvs := dom.NewCounter(), dom.NewCounter()
	av := dom.NewAddressVector()
	ep, err := dom.NewEndpoint(efa.EndpointConfig{
		AV: av, SendQueue: q, RecvQueue: q, SendCounter: sends, RecvCounter: recvs, TxDepth: 8, RxDepth: 24,
	})
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	to, err := av.Insert(other.ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)

	var accepted, begun atomic.Int64
	var mu sync.Mutex
	outcomes := map[efa.OpID]int{}
	var users, readers sync.WaitGroup
	use := func(f func() error) {
		users.Go(func() {
			for n := 0; ; n++ {
				if n == 3 {
					begun.Add(1)
				}
				switch err := f(); {
				case errors.Is(err, efa.ErrClosed):
					assert.ErrorIs(t, err, net.ErrClosed)
					return
				case ctx.Err() != nil:
					t.Error("out of time")
					return
				}
			}
		})
	}
	postOne := func(r efa.Request) error {
		id, err := post(ep, r)
		if err == nil {
			accepted.Add(1)
			if id%5 == 0 {
				err = ep.Cancel(id)
			}
		}
		return err
	}
	small, large := make([]byte, 64), make([]byte, 200_000)
	for range 2 {
		use(func() error { return postOne(&efa.RecvReq{Buf: make([]byte, 8), Token: 1}) })
		use(func() error { return postOne(&efa.SendReq{To: to, Buf: small, Token: 1}) })
		use(func() error { return postOne(&efa.SendReq{To: to, Buf: large, Tagged: true, Token: 1}) })
		use(func() error { return ep.Send(ctx, to, small, efa.Inject) })
		use(func() error { return ep.Send(ctx, to, large) })
		use(func() error { _, err := ep.RecvTag(ctx, efa.AnyTag, make([]byte, 8)); return err })
		readers.Go(func() {
			var cs [16]efa.Completion
			for {
				n, err := q.Read(ctx, cs[:])
				mu.Lock()
				for _, c := range cs[:n] {
					if c.Token != 0 { // not a failed injection
						outcomes[c.ID]++
					}
				}
				mu.Unlock()
				if err != nil {
					assert.ErrorIs(t, err, efa.ErrClosed)
					return
				}
			}
		})
	}
	use(func() error {
		op, err := ep.Start(&efa.RecvReq{Buf: make([]byte, 8), Tagged: true, Tag: 1})
		if err != nil {
			return err
		}
		_, err = op.Wait(ctx)
		return err
	})
	use(func() error { _, err := ep.Stats(ctx); return err })
	for range 2 {
		users.Go(func() {
			for {
				if _, err := ep.NextEvent(ctx); err != nil {
					assert.ErrorIs(t, err, efa.ErrClosed)
					return
				}
			}
		})
		users.Go(func() {
			for {
				if err := recvs.Wait(ctx, 1<<40); !errors.As(err, new(*efa.CounterError)) {
					assert.ErrorIs(t, err, efa.ErrClosed)
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	users.Go(func() { // the address vector outlives the endpoint
		for n := uint32(1); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			h, err := av.Insert(efa.NewAddress("sim", madeUp(n)))
			assert.NoError(t, err)
			assert.NoError(t, av.Remove(ctx, h))
		}
	})
	enough, cancel := context.WithCancel(ctx)
	users.Go(func() { // some of what is sent arrives
		for !errors.Is(err, efa.ErrCanceled) {
			_, err = other.ep.Recv(enough, make([]byte, 64))
		}
	})
	for begun.Load() < 7 { // those who post, and Stats
		runtime.Gosched()
	}
	for i := range 3 {
		users.Go(func() {
			if (round+i)%2 == 0 {
				assert.NoError(t, ep.Close())
				return
			}
			bound, cancel := context.WithCancel(ctx)
			cancel()
			if err := ep.Shutdown(bound); err != nil {
				assert.ErrorIs(t, err, efa.ErrCanceled)
			}
		})
	}
	require.NoError(t, ep.Close())
	close(stop)
	cancel()
	within(t, "a user of the closed endpoint", users.Wait)
	within(t, "a reader", readers.Wait)
	var cs [64]efa.Completion
	for _, c := range cs[:q.TryRead(cs[:])] { // of posts that came after the readers went
		if c.Token != 0 {
			outcomes[c.ID]++
		}
	}
	for id, n := range outcomes {
		require.Equal(t, 1, n, "outcomes of operation %d", id)
	}
	require.EqualValues(t, accepted.Load(), len(outcomes), "accepted operations and outcomes")
	require.NoError(t, q.Close())
	require.NoError(t, av.Close())
}

// madeUp is the n-th address at which nobody is.
func madeUp(n uint32) efa.RawAddr {
	return wire.MakeRawAddr([16]byte{0: 0xfe, 1: 0x80, 15: 0xaa}, uint16(n), n|1<<30)
}

// TestShutdown: it waits for what was accepted, refuses what is new, and gives up
// with its context.
func TestShutdown(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx := testContext(t)
	op, err := a.ep.Start(&efa.SendReq{To: a.peer, Buf: pattern(300_000)})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- a.ep.Shutdown(ctx) }()
	for !errors.Is(a.ep.Send(ctx, efa.Addr(1<<20), nil), efa.ErrClosed) { // an operation that ends at once
		runtime.Gosched()
	}
	select {
	case err := <-done:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	m, err := b.ep.Recv(ctx, make([]byte, 300_000))
	require.NoError(t, err)
	require.Equal(t, 300_000, m.N)
	require.NoError(t, <-done)
	c, err := op.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, op.ID(), c.ID)
	require.ErrorIs(t, a.ep.Send(ctx, a.peer, nil), efa.ErrClosed)

	a, _ = newPair(t, efa.DomainConfig{})
	op, err = a.ep.Start(&efa.SendReq{To: a.peer, Buf: pattern(300_000)})
	require.NoError(t, err)
	bound, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, a.ep.Shutdown(bound), context.Canceled)
	<-op.Done()
	_, err = op.Wait(ctx)
	require.ErrorIs(t, err, efa.ErrClosed)
}

// TestDeviceFails: operations end with ErrIO when the device queue fails, also
// those that come later, and there is an event.
func TestDeviceFails(t *testing.T) {
	dev := &buggy{Device: newDevice(t, newFabric(t, sim.Config{}))}
	dom := domainOn(t, dev, efa.DomainConfig{})
	q := newQueue(t, dom, 8)
	s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
	ctx := testContext(t)
	_, err := s.ep.PostRecv(&efa.RecvReq{})
	require.NoError(t, err)
	dev.in.Store("Poll")
	_, err = s.ep.Recv(ctx, nil)
	require.ErrorIs(t, err, efa.ErrIO)
	ev, err := s.ep.NextEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, efa.DeviceFailed, ev.Kind)
	require.ErrorIs(t, ev.Err, efa.ErrIO)
	_, err = s.ep.PostRecv(&efa.RecvReq{})
	require.NoError(t, err)
	var cs [8]efa.Completion
	for got := 0; got < 2; {
		n, err := q.Read(ctx, cs[:])
		require.NoError(t, err)
		for _, c := range cs[:n] {
			require.ErrorIs(t, c.Err, efa.ErrIO)
		}
		got += n
	}
	require.ErrorIs(t, s.ep.Send(ctx, 0, nil), efa.ErrIO)
}

// TestCloseOrder: what others depend on cannot be closed before them.
func TestCloseOrder(t *testing.T) {
	fab, err := efa.Open(efa.Config{DeviceName: "sim"})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	q, av := newQueue(t, dom, 0), dom.NewAddressVector()
	counter := dom.NewCounter()
	ctx := testContext(t)
	var cs [1]efa.Completion
	_, err = q.Read(ctx, cs[:])
	require.ErrorIs(t, err, efa.ErrBadState)
	require.ErrorIs(t, counter.Wait(ctx, 1), efa.ErrBadState)
	cfg := efa.EndpointConfig{AV: av, SendQueue: q, SendCounter: counter}
	ep, err := dom.NewEndpoint(cfg)
	require.NoError(t, err)
	for _, f := range []func() error{fab.Close, dom.Close, q.Close, av.Close} {
		require.ErrorIs(t, f(), efa.ErrBusy)
	}
	require.NoError(t, ep.Close()) // though it was never enabled
	require.NoError(t, ep.Close())
	require.ErrorIs(t, ep.Enable(ctx), efa.ErrClosed)
	_, err = q.Read(ctx, cs[:])
	require.ErrorIs(t, err, efa.ErrClosed)
	require.ErrorIs(t, counter.Wait(ctx, 1), efa.ErrClosed)
	require.NoError(t, counter.Wait(ctx, 0))
	require.ErrorIs(t, fab.Close(), efa.ErrBusy)
	require.NoError(t, q.Close())
	require.NoError(t, av.Close())
	_, err = dom.NewEndpoint(cfg)
	require.ErrorIs(t, err, efa.ErrClosed)
	_, err = av.Insert(efa.NewAddress("sim", madeUp(1)))
	require.ErrorIs(t, err, efa.ErrClosed)
	require.NoError(t, dom.Close())
	require.NoError(t, dom.Close())
	_, err = dom.NewEndpoint(efa.EndpointConfig{AV: dom.NewAddressVector()})
	require.ErrorIs(t, err, efa.ErrClosed)
	require.NoError(t, fab.Close())
	_, err = fab.OpenDomain(efa.DomainConfig{})
	require.ErrorIs(t, err, efa.ErrClosed)
}
