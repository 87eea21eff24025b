package efa_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

func TestServeAndResolve(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	l := listen()
	ctx, stop := context.WithCancel(testContext(t))
	served := make(chan error, 1)
	go func() { served <- a.ep.Serve(ctx, l) }()
	for range 2 {
		h, err := b.av.Resolve(ctx, l.Addr().String())
		require.NoError(t, err)
		require.Equal(t, b.peer, h)
	}
	stop()
	require.NoError(t, <-served)
	_, err := b.av.Resolve(testContext(t), l.Addr().String())
	require.Error(t, err)
	_, err = b.av.Resolve(ctx, l.Addr().String())
	require.ErrorIs(t, err, context.Canceled)

	// Others than Serve: garbage, an endless line, silence.
	for _, answer := range []string{"", "hello\n", "sim://[::1]:1:2", "shm://[::1]:1:2\n"} {
		l := listen()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, answer) // what arrives is tested
			_ = c.Close()
		}()
		_, err := b.av.Resolve(testContext(t), l.Addr().String())
		require.Error(t, err, "%q", answer)
		require.NoError(t, l.Close())
	}
	l = listen()
	defer l.Close()
	ctx, stop = context.WithCancel(context.Background())
	go func() {
		c, err := l.Accept()
		stop()
		if err == nil {
			defer c.Close()
			_, _ = c.Read(make([]byte, 1)) // until the other gives up
		}
	}()
	_, err = b.av.Resolve(ctx, l.Addr().String())
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, a.ep.Close())
	l2 := listen()
	go func() { served <- a.ep.Serve(testContext(t), l2) }()
	_, err = b.av.Resolve(testContext(t), l2.Addr().String())
	require.Error(t, err)
	require.ErrorIs(t, <-served, efa.ErrClosed)
}

// TestEventBacklog: the latest events are kept, and the number of those that were not is reported.
func TestEventBacklog(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	dom := openDomain(t, f, efa.DomainConfig{})
	busy := newEndpoint(t, dom, efa.EndpointConfig{EventBacklog: 2})
	ctx := testContext(t)
	var last efa.Address
	for range 5 {
		s := newEndpoint(t, dom, efa.EndpointConfig{})
		to, err := s.av.Insert(busy.ep.Address())
		require.NoError(t, err)
		op, err := s.ep.Start(&efa.SendReq{To: to})
		require.NoError(t, err)
		_, err = busy.ep.Recv(ctx, nil)
		require.NoError(t, err)
		_, err = op.Wait(ctx)
		require.NoError(t, err)
		last = s.ep.Address()
	}
	var lost []uint64
	for len(lost) < 2 {
		ev, err := busy.ep.NextEvent(ctx)
		require.NoError(t, err)
		require.Equal(t, efa.NewPeer, ev.Kind)
		if lost = append(lost, ev.Lost); len(lost) == 2 {
			require.True(t, last.Equal(ev.Address))
		}
	}
	require.Equal(t, []uint64{3, 0}, lost)
	_, ok := busy.ep.TryEvent()
	require.False(t, ok)
	short, cancel := context.WithCancel(ctx)
	cancel()
	_, err := busy.ep.NextEvent(short)
	require.ErrorIs(t, err, efa.ErrCanceled)
}
