package efa_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/wire"
)

func simAddress(n uint32) efa.Address { return efa.NewAddress("sim", madeUp(n)) }

// TestInsert: duplicates keep their handle, a bad address in the middle does no
// harm, handles count from 0 and the lowest free one comes first.
func TestInsert(t *testing.T) {
	av := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{}).NewAddressVector()
	ctx := testContext(t)
	noGID := efa.NewAddress("sim", wire.MakeRawAddr([16]byte{}, 1, 1))
	hs, err := av.InsertAll(simAddress(1), efa.NewAddress("shm", madeUp(2)), simAddress(3), simAddress(1), noGID, efa.Address{})
	require.Len(t, hs, 6)
	require.Equal(t, []efa.Addr{0, 1, 0}, []efa.Addr{hs[0], hs[2], hs[3]})
	require.ErrorIs(t, err, efa.ErrAddrNotAvail)
	var bad []int
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var ie *efa.InsertError
		require.ErrorAs(t, e, &ie)
		bad = append(bad, ie.Index)
	}
	require.Equal(t, []int{1, 4, 5}, bad)
	require.Equal(t, 2, av.Len())
	_, err = av.Insert(noGID)
	require.ErrorIs(t, err, efa.ErrAddrNotAvail)
	require.False(t, errors.As(err, new(*efa.InsertError)), "there is only one address")

	more := make([]efa.Address, 1000)
	for i := range more {
		more[i] = simAddress(uint32(100 + i))
	}
	hs, err = av.InsertAll(more...)
	require.NoError(t, err)
	require.EqualValues(t, 2, hs[0])
	for _, h := range []efa.Addr{700, 5, 64, 300} {
		require.NoError(t, av.Remove(ctx, h))
		require.ErrorIs(t, av.Remove(ctx, h), efa.ErrInvalid)
		_, err := av.Lookup(h)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	for i, want := range []efa.Addr{5, 64, 300, 700, 1002} {
		h, err := av.Insert(simAddress(uint32(10_000 + i)))
		require.NoError(t, err)
		require.Equal(t, want, h)
		a, err := av.Lookup(h)
		require.NoError(t, err)
		require.True(t, a.Equal(simAddress(uint32(10_000+i))))
	}
	h, err := av.Insert(more[0])
	require.NoError(t, err)
	require.EqualValues(t, 2, h)
	require.ErrorIs(t, av.Remove(ctx, efa.AnyAddr), efa.ErrInvalid)
}

// TestManyAddresses: the cost of an insertion or removal does not grow with the
// vector.
func TestManyAddresses(t *testing.T) {
	const n = 100_000
	av := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{}).NewAddressVector()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	for range 2 { // the second time into freed handles
		for i := range uint32(n) {
			h, err := av.Insert(simAddress(i))
			require.NoError(t, err)
			require.EqualValues(t, i, h)
		}
		require.Equal(t, n, av.Len())
		for h := range efa.Addr(n) {
			if err := av.Remove(ctx, h); err != nil {
				require.NoError(t, err)
			}
		}
	}
	require.Zero(t, av.Len())
}

// TestRemoveInFlight: what is in progress with a peer that is removed ends with
// ErrCanceled, and the peer resumes when it is inserted again.
func TestRemoveInFlight(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			dom := openDomain(t, f, efa.DomainConfig{Progress: mode})
			q := newQueue(t, dom, 256)
			a := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
			b := newEndpoint(t, openDomain(t, f, efa.DomainConfig{Progress: mode}), efa.EndpointConfig{})
			introduce(t, a, b)
			ctx := testContext(t)
			ended := map[efa.OpID]error{}
			for i := range 40 {
				r := efa.Request(&efa.RecvReq{From: a.peer, Directed: true, Buf: make([]byte, 8), Tagged: i%4 < 2})
				if i%2 == 0 { // more than goes without the receiver's consent
					r = &efa.SendReq{To: a.peer, Buf: make([]byte, 300_000)}
				}
				id, err := post(a.ep, r)
				require.NoError(t, err)
				ended[id] = nil
			}
			var anyone efa.OpID
			anyone, err := a.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 8)})
			require.NoError(t, err)
			within(t, "Remove", func() { require.NoError(t, a.av.Remove(ctx, a.peer)) })
			var cs [64]efa.Completion
			for got := 0; got < len(ended); {
				n, err := q.Read(ctx, cs[:])
				require.NoError(t, err)
				for _, c := range cs[:n] {
					require.Contains(t, ended, c.ID)
					require.NoError(t, ended[c.ID], "two outcomes")
					require.ErrorIs(t, c.Err, efa.ErrCanceled)
					ended[c.ID] = c.Err
				}
				got += n
			}
			require.ErrorIs(t, a.ep.Send(ctx, a.peer, nil), efa.ErrInvalid)

			a.peer, err = a.av.Insert(b.ep.Address())
			require.NoError(t, err)
			go func() { _ = b.ep.Send(ctx, b.peer, []byte("again")) }() // its outcome is the receiver's
			n, err := q.Read(ctx, cs[:])
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.NoError(t, cs[0].Err)
			require.Equal(t, anyone, cs[0].ID)
			require.Equal(t, a.peer, cs[0].From)
			go func() { _ = a.ep.SendTag(ctx, a.peer, 9, []byte("resumed")) }()
			buf := make([]byte, 8)
			m, err := b.ep.RecvTag(ctx, efa.Match{Tag: 9}, buf)
			require.NoError(t, err)
			require.Equal(t, "resumed", string(buf[:m.N]))
		})
	}
}

// TestRemoveDuringTraffic: a handle that is taken out and put in while others use
// the endpoint; a full request ring does not lock anybody up.
func TestRemoveDuringTraffic(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx, cancel := context.WithCancel(testContext(t))
	spam := make(chan error, 4)
	for range cap(spam) {
		go func() {
			for ctx.Err() == nil {
				// Cancel has no limit but the ring.
				if err := a.ep.Cancel(1 << 60); err != nil {
					spam <- err
					return
				}
			}
			spam <- nil
		}()
	}
	stranger := newEndpoint(t, b.dom, efa.EndpointConfig{})
	to, err := stranger.av.Insert(a.ep.Address())
	require.NoError(t, err)
	sent := make(chan error, 1)
	go func() { // makes the shard look into the vector
		for range less(200) {
			if err := stranger.ep.Send(ctx, to, nil); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	within(t, "the address vector", func() {
		for i := range uint32(less(200)) {
			h, err := a.av.Insert(simAddress(i))
			require.NoError(t, err)
			require.NoError(t, a.av.Remove(ctx, h))
		}
	})
	within(t, "the stranger", func() { require.NoError(t, <-sent) })
	cancel()
	for range cap(spam) {
		require.NoError(t, <-spam)
	}
}

// TestImplicitPeer: a sender that nobody inserted is known by its raw address;
// inserting it makes it a peer.
func TestImplicitPeer(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	a := newEndpoint(t, openDomain(t, f, efa.DomainConfig{}), efa.EndpointConfig{})
	b := newEndpoint(t, openDomain(t, f, efa.DomainConfig{}), efa.EndpointConfig{})
	var err error
	a.peer, err = a.av.Insert(b.ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)
	go func() {
		for i := range byte(3) {
			_ = a.ep.Send(ctx, a.peer, []byte{i}) // the receiver tells
		}
	}()
	buf := make([]byte, 8)
	m, err := b.ep.Recv(ctx, buf)
	require.NoError(t, err)
	require.Equal(t, efa.NoAddr, m.From)
	raw, _ := a.ep.Address().Raw("sim")
	require.Equal(t, raw, m.Raw())
	ev, err := b.ep.NextEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, efa.NewPeer, ev.Kind)
	require.Equal(t, efa.NoAddr, ev.Peer)
	require.True(t, a.ep.Address().Equal(ev.Address))

	h, err := b.av.Insert(ev.Address)
	require.NoError(t, err)
	for i := range byte(2) {
		m, err = b.ep.Recv(ctx, buf, efa.From(h))
		require.NoError(t, err)
		require.Equal(t, h, m.From)
		require.Equal(t, i+1, buf[0])
	}
	require.NoError(t, b.ep.Send(ctx, h, []byte("answer"), efa.Inject))
	m, err = a.ep.Recv(ctx, buf)
	require.NoError(t, err)
	require.Equal(t, "answer", string(buf[:m.N]))
}
