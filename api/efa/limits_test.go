package efa_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
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
		{Protocol: proto{RNRRetry: -1, MaxMedium: -1, MinRead: -1, MinReadWrite: -1, Era: "2.6"}},
		{Level: efa.Matched, Caps: efa.CapRMA | efa.CapAtomic, Protocol: proto{ReadSegment: 1, RuntSize: 1, Homogeneous: true}},
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
		`Protocol.Era is "1.9"`:   {efa.EndpointConfig{Protocol: proto{Era: "1.9"}}, efa.ErrInvalid},
		"capabilities 0x80":       {efa.EndpointConfig{Caps: efa.CapMsg | efa.CapRMA | 0x80}, efa.ErrNotSupported},
		"completion level 4":      {efa.EndpointConfig{Level: efa.Matched + 1}, efa.ErrInvalid},
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
	_, err := dom.NewEndpoint(efa.EndpointConfig{})
	require.ErrorIs(t, err, efa.ErrNoAV)
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
		ep.Send(ctx, 0, nil), second(ep.Recv(ctx, nil)), second(ep.Post(&efa.RecvReq{})), second(ep.Stats(ctx)),
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
			id, err := s.ep.Post(&efa.RecvReq{})
			require.NoError(t, err)
			last = id
		}
		_, err := s.ep.Post(&efa.RecvReq{})
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
	_, err = deep.ep.Post(&efa.SendReq{})
	require.ErrorIs(t, err, efa.ErrNoCQ)
	n, err := deep.ep.PostBatch([]efa.Request{&efa.RecvReq{Buf: []byte{1}, Bufs: [][]byte{{1}}}})
	require.Zero(t, n)
	require.ErrorIs(t, err, efa.ErrInvalid)
}

// TestCaps: an endpoint does only what it was made for.
func TestCaps(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what is allowed ends at once
	require.Equal(t, "CapMsg|CapDirectedRecv|0x80000000", (efa.CapMsg | efa.CapDirectedRecv | 1<<31).String())
	for caps, want := range map[efa.Caps][7]bool{ // send, sendTag, recv, recvTag, directed, write, atomic
		0:                           {true, true, true, true, true, true, true},
		efa.CapMsg:                  {true, false, true, false, false, false, false},
		efa.CapTagged | efa.CapRecv: {false, false, false, true, false, false, false},
		efa.CapSend | efa.CapAtomic: {true, true, false, false, false, false, true},
		efa.CapDirectedRecv:         {true, true, true, true, true, false, false},
		efa.CapTagged | efa.CapRMA:  {false, true, false, true, false, true, false},
		efa.CapAtomic | efa.CapMsg:  {true, false, true, false, false, false, true},
	} {
		ep := newEndpoint(t, dom, efa.EndpointConfig{Caps: caps}).ep
		for i, err := range []error{
			ep.Send(ctx, 0, nil), ep.SendTag(ctx, 0, 1, nil), second(ep.Recv(ctx, nil)), second(ep.RecvTag(ctx, efa.AnyTag, nil)),
			second(ep.Recv(ctx, nil, efa.From(0))), ep.Write(ctx, 0, efa.Remote{}, nil), efa.Add(ctx, ep, 0, efa.Remote{Len: 1}, int8(1)),
		} {
			if want[i] {
				require.ErrorIs(t, err, efa.ErrCanceled, "%v, operation %d", caps, i)
			} else {
				require.ErrorIs(t, err, efa.ErrNotSupported, "%v, operation %d", caps, i)
			}
		}
	}
}
