package efa_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestCloseRaces closes an endpoint while many goroutines use it in every way:
// each accepted operation has one outcome, and nobody is left waiting (B17).
func TestCloseRaces(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			da := openDomain(t, f, efa.DomainConfig{Progress: mode})
			b := newEndpoint(t, openDomain(t, f, efa.DomainConfig{Progress: mode}), efa.EndpointConfig{})
			for round := range 12 {
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
	post := func(r efa.Request) error {
		id, err := ep.Post(r)
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
		use(func() error { return post(&efa.RecvReq{Buf: make([]byte, 8)}) })
		use(func() error { return post(&efa.SendReq{To: to, Buf: small}) })
		use(func() error { return post(&efa.SendReq{To: to, Buf: large, Tagged: true}) })
		use(func() error { return ep.Send(ctx, to, small, efa.Inject) })
		use(func() error { return ep.Send(ctx, to, large) })
		use(func() error { _, err := ep.RecvTag(ctx, efa.AnyTag, make([]byte, 8)); return err })
		readers.Go(func() {
			var cs [16]efa.Completion
			for {
				n, err := q.Read(ctx, cs[:])
				mu.Lock()
				for _, c := range cs[:n] {
					if c.ID != 0 {
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
	for begun.Load() < 8 {
		m, err := other.ep.Recv(ctx, small) // some of what is sent arrives
		require.True(t, err == nil || errors.Is(err, efa.ErrTruncated) || errors.Is(err, efa.ErrPeerFailed), "%v %v", m, err)
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
	within(t, "a user of the closed endpoint", users.Wait)
	within(t, "a reader", readers.Wait)
	var cs [64]efa.Completion
	for _, c := range cs[:q.TryRead(cs[:])] { // of posts that came after the readers went
		outcomes[c.ID]++
	}
	for id, n := range outcomes {
		require.Equal(t, 1, n, "outcomes of operation %d", id)
	}
	require.EqualValues(t, accepted.Load(), len(outcomes)-quietFailures(outcomes), "accepted operations and outcomes")
	require.NoError(t, q.Close())
	require.NoError(t, av.Close())
}
