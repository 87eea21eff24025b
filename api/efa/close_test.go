package efa_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/wire"
)

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
