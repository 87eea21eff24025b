package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

type account struct{ name string }

// TestPeerValue: what was attached to a peer is reached by the source of what it sends, and
// is gone with its handle.
func TestPeerValue(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx := testContext(t)
	require.Nil(t, b.av.Value(b.peer))
	alice := &account{"alice"}
	require.NoError(t, b.av.SetValue(b.peer, alice))
	for range 2 {
		sent := make(chan error, 1)
		go func() { sent <- a.ep.Send(ctx, a.peer, []byte("x")) }()
		m, err := b.ep.Recv(ctx, make([]byte, 8))
		require.NoError(t, err)
		require.Same(t, alice, b.av.Value(m.From))
		require.NoError(t, <-sent)
	}
	require.NoError(t, b.av.SetValue(b.peer, 7))
	require.Equal(t, 7, b.av.Value(b.peer))
	h, err := b.av.InsertValue(a.ep.Address(), alice) // is there already
	require.NoError(t, err)
	require.Equal(t, b.peer, h)
	require.Same(t, alice, b.av.Value(h))
	_, err = b.av.InsertValue(a.ep.Address(), nil)
	require.NoError(t, err)
	require.Same(t, alice, b.av.Value(h))
	if !raceEnabled {
		var v any
		require.Zero(t, testing.AllocsPerRun(1000, func() { v = b.av.Value(h) }))
		require.Same(t, alice, v)
	}
	require.NoError(t, b.av.Remove(ctx, h))
	require.Nil(t, b.av.Value(h))
	require.ErrorIs(t, b.av.SetValue(h, alice), efa.ErrInvalid)
	again, err := b.av.InsertValue(simAddress(1), "bob")
	require.NoError(t, err)
	require.Equal(t, h, again, "the handle is used again")
	require.Equal(t, "bob", b.av.Value(again))
	for _, none := range []efa.Addr{efa.NoAddr, efa.AnyAddr, 12345} {
		require.Nil(t, b.av.Value(none))
		require.ErrorIs(t, b.av.SetValue(none, 1), efa.ErrInvalid)
	}
	_, err = b.av.InsertValue(efa.Address{}, "nobody")
	require.ErrorIs(t, err, efa.ErrAddrNotAvail)
}

// TestPeerValuesAtOnce: values are read while others change them, for the race detector.
func TestPeerValuesAtOnce(t *testing.T) {
	av := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{}).NewAddressVector()
	ctx := testContext(t)
	h, err := av.InsertValue(simAddress(1), 0)
	require.NoError(t, err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range 500 {
			if err := av.SetValue(h, i); err != nil {
				t.Error(err)
			}
			x, err := av.InsertValue(simAddress(2), i)
			if err != nil {
				t.Error(err)
			}
			if err := av.Remove(ctx, x); err != nil {
				t.Error(err)
			}
		}
	}()
	for last := 0; ; {
		select {
		case <-over:
			require.Equal(t, 499, av.Value(h))
			return
		default:
			v := av.Value(h).(int)
			require.GreaterOrEqual(t, v, last)
			last = v
			_ = av.Value(h + 1)
		}
	}
}
