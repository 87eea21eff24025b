package efa_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/internal/eratest"
)

// TestConfigLimits: each setting is accepted at its limit and refused beyond it,
// with an error that names it.
func TestConfigLimits(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	other := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	l, av := dom.Limits(), dom.NewAddressVector()
	type proto = efa.ProtocolConfig
	for _, cfg := range []efa.EndpointConfig{
		{},
		{TxDepth: 1, RxDepth: 1, EventBacklog: 1, Protocol: proto{SendQueue: 1, RecvQueue: 1, Credits: 1, RecvWindow: 1, DetachLimit: 1}},
		{TxDepth: l.MaxOps, RxDepth: l.MaxOps, Protocol: proto{SendQueue: l.MaxSQ, RecvQueue: l.MaxRQ, RNRRetry: 7}},
		{Protocol: proto{RNRRetry: -1, MaxMedium: -1, MinRead: -1, MinReadWrite: -1}},
		{Protocol: ofEra(t, "2.6", proto{})},
		{Level: efa.Delivered, Protocol: proto{ReadSegment: 1, RuntSize: 1, Homogeneous: true}},
	} {
		cfg.AV = av
		ep, err := dom.NewEndpoint(cfg)
		require.NoError(t, err)
		require.NoError(t, ep.Enable(context.Background()))
		require.NoError(t, ep.Close())
	}
	for name, x := range map[string]struct {
		cfg  efa.EndpointConfig
		want error
	}{
		"TxDepth is":              {efa.EndpointConfig{TxDepth: l.MaxOps + 1}, efa.ErrInvalid},
		"RxDepth is":              {efa.EndpointConfig{RxDepth: -1}, efa.ErrInvalid},
		"EventBacklog is":         {efa.EndpointConfig{EventBacklog: -1}, efa.ErrInvalid},
		"Protocol.SendQueue is":   {efa.EndpointConfig{Protocol: proto{SendQueue: l.MaxSQ + 1}}, efa.ErrInvalid},
		"Protocol.RecvQueue is":   {efa.EndpointConfig{Protocol: proto{RecvQueue: l.MaxRQ + 1}}, efa.ErrInvalid},
		"Protocol.RNRRetry is":    {efa.EndpointConfig{Protocol: proto{RNRRetry: 8}}, efa.ErrInvalid},
		"Protocol.PeerTimeout is": {efa.EndpointConfig{Protocol: proto{PeerTimeout: -time.Second}}, efa.ErrInvalid},
		"Protocol.TotalMemory is": {efa.EndpointConfig{Protocol: proto{TotalMemory: -1}}, efa.ErrInvalid},
		"Protocol.ReadSegment is": {efa.EndpointConfig{Protocol: proto{ReadSegment: -1}}, efa.ErrInvalid},
		"Protocol.RuntSize is":    {efa.EndpointConfig{Protocol: proto{RuntSize: -1}}, efa.ErrInvalid},
		"completion level 3":      {efa.EndpointConfig{Level: efa.Delivered + 1}, efa.ErrInvalid},
		"the address vector is":   {efa.EndpointConfig{AV: other.NewAddressVector()}, efa.ErrDomain},
		"the queue is":            {efa.EndpointConfig{SendQueue: newQueue(t, other, 0)}, efa.ErrDomain},
		"the counter is":          {efa.EndpointConfig{RemoteWriteCounter: other.NewCounter()}, efa.ErrDomain},
	} {
		if x.cfg.AV == nil {
			x.cfg.AV = av
		}
		_, err := dom.NewEndpoint(x.cfg)
		require.ErrorIs(t, err, x.want, name)
		require.ErrorContains(t, err, name)
	}
	alone, err := dom.NewEndpoint(efa.EndpointConfig{})
	require.NoError(t, err)
	require.NotSame(t, av, alone.AddressVector(), "it has one of its own")
	require.Zero(t, alone.AddressVector().Len())
	require.NoError(t, alone.Close())
	newQueue(t, dom, l.MaxQueue)
	for _, depth := range []int{-1, l.MaxQueue + 1} {
		_, err := dom.NewQueue(depth)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	require.NoError(t, av.Close(), "refused endpoints left something")

	fab, err := efa.Open(efa.Config{DeviceName: "sim"})
	require.NoError(t, err)
	for _, cfg := range []efa.DomainConfig{{Shards: -1}, {Spin: -1}, {Progress: efa.ProgressPinned, CPUs: []int{1 << 20}, Shards: 2}} {
		_, err := fab.OpenDomain(cfg)
		require.Error(t, err, "%+v", cfg)
	}
	require.NoError(t, fab.Close(), "refused domains left something")
	_, err = efa.Open(efa.Config{DeviceName: "quantum"})
	require.ErrorIs(t, err, efa.ErrInvalid)
	_, err = efa.ParseProgress("sideways")
	require.Error(t, err)
}

// TestEnable: once, and a failure leaves nothing behind.
func TestEnable(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	q := newQueue(t, dom, 0)
	s := newEndpoint(t, dom, efa.EndpointConfig{QPN: 7})
	ctx := testContext(t)
	require.ErrorIs(t, s.ep.Enable(ctx), efa.ErrBadState)

	av := dom.NewAddressVector()
	ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av, QPN: 7, SendQueue: q, RecvQueue: q})
	require.NoError(t, err)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, ep.Enable(canceled), efa.ErrCanceled)
	require.ErrorContains(t, ep.Enable(ctx), "queue pair")
	require.True(t, ep.Address().IsZero())
	for _, err := range []error{
		ep.Send(ctx, 0, nil), second(ep.Recv(ctx, nil)), second(ep.PostRecv(&efa.RecvReq{})), second(ep.Stats(ctx)),
		second(ep.Start(&efa.SendReq{})), ep.Cancel(1),
	} {
		require.ErrorIs(t, err, efa.ErrBadState)
	}
	require.NoError(t, s.ep.Close())
	require.NoError(t, ep.Enable(ctx), "the number is free again")
	require.False(t, ep.Address().IsZero())
	require.NoError(t, ep.Close())
	require.NoError(t, q.Close())
}

// ofEra has an endpoint talk like a release of libfabric; "": as efactor does.
func ofEra(t *testing.T, name string, p efa.ProtocolConfig) efa.ProtocolConfig {
	if name != "" {
		require.NoError(t, eratest.TalkLike(efatest.KnobsOf(&p), name))
	}
	return p
}

func second[T any](_ T, err error) error { return err }

// TestDepths: exactly as many operations as was said, and one more when one ended.
func TestDepths(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	q := newQueue(t, dom, 8)
	deep := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q})
	flat := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: newQueue(t, dom, 100), RxDepth: 5})
	ctx := testContext(t)
	fill := func(s *side, n int) (last efa.OpID) {
		for range n {
			id, err := s.ep.PostRecv(&efa.RecvReq{})
			require.NoError(t, err)
			last = id
		}
		_, err := s.ep.PostRecv(&efa.RecvReq{})
		require.ErrorIs(t, err, efa.ErrAgain)
		return last
	}
	var cs [1]efa.Completion
	for s, n := range map[*side]int{deep: 8, flat: 5} {
		id := fill(s, n)
		require.NoError(t, s.ep.Cancel(id))
		_, err := s.ep.RecvQueue().Read(ctx, cs[:])
		require.NoError(t, err)
		require.Equal(t, id, cs[0].ID)
		fill(s, 1)
	}
	_, err := q.Read(ctx, nil)
	require.ErrorIs(t, err, efa.ErrInvalid)
	_, err = deep.ep.PostSend(&efa.SendReq{})
	require.ErrorIs(t, err, efa.ErrNoCQ)
	n, err := deep.ep.PostRecvs([]efa.RecvReq{{Buf: []byte{1}, Bufs: [][]byte{{1}}}})
	require.Zero(t, n)
	require.ErrorIs(t, err, efa.ErrInvalid)
}
