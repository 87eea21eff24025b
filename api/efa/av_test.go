package efa_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
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

// TestPeerName: a peer's name is in the errors of all kinds of calls that have to do with it,
// and is gone with its handle.
func TestPeerName(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx := testContext(t)
	require.Empty(t, a.av.Name(a.peer))
	h, err := a.av.InsertNamed(b.ep.Address(), "bob") // is there already
	require.NoError(t, err)
	require.Equal(t, a.peer, h)
	require.Equal(t, "bob", a.av.Name(h))
	_, err = a.av.InsertNamed(b.ep.Address(), "")
	require.NoError(t, err)
	require.Equal(t, "bob", a.av.Name(h), "a name of nothing takes none away")

	err = a.ep.Memory(a.peer, efa.KeyRemote(1, 8)).Write(ctx, pattern(8), efa.Complete(efa.Delivered))
	require.ErrorContains(t, err, "efa: write, peer 0 (bob): ")
	var oe *efa.OpError
	require.ErrorAs(t, err, &oe)
	require.Equal(t, "bob", oe.Name)

	op, err := a.ep.Start(&efa.SendReq{To: a.peer, Buf: pattern(4 << 20)})
	require.NoError(t, err)
	op.Cancel()
	c, err := op.Wait(ctx)
	require.ErrorContains(t, err, "efa: send, peer 0 (bob): ")
	require.ErrorContains(t, c.Err, "(bob)")

	require.NoError(t, a.av.SetName(h, "robert"))
	require.Equal(t, "robert", a.av.Name(h))
	require.NoError(t, a.av.SetValue(h, 1))
	require.Equal(t, "robert", a.av.Name(h), "a value leaves the name")
	require.NoError(t, a.av.Remove(ctx, h))
	require.Empty(t, a.av.Name(h))
	require.ErrorIs(t, a.av.SetName(h, "bob"), efa.ErrInvalid)
	for _, none := range []efa.Addr{efa.NoAddr, efa.AnyAddr, 12345} {
		require.Empty(t, a.av.Name(none))
		require.ErrorIs(t, a.av.SetName(none, "bob"), efa.ErrInvalid)
	}
	_, err = a.av.InsertNamed(efa.Address{}, "nobody")
	require.ErrorIs(t, err, efa.ErrAddrNotAvail)
	again, err := a.av.InsertNamed(simAddress(1), "carol")
	require.NoError(t, err)
	require.Equal(t, "carol", a.av.Name(again))
}

// pollHook is a device whose queue pairs call a function, once, before they are polled.
type pollHook struct {
	device.Device
	before atomic.Pointer[func()]
}

type pollHookQP struct {
	device.QP
	dev *pollHook
}

func (d *pollHook) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	return &pollHookQP{qp, d}, err
}

func (q *pollHookQP) Poll(c []device.Completion) int {
	if f := q.dev.before.Swap(nil); f != nil {
		(*f)()
	}
	return q.QP.Poll(c)
}

// TestInsertBeforeMessage: a message that comes after Insert has returned has a sender, also if
// the turn that takes it up had looked for requests before Insert.
func TestInsertBeforeMessage(t *testing.T) {
	for name, cfg := range map[string]efa.EndpointConfig{"protocol": {}, "direct": {Direct: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			manual := efa.DomainConfig{Progress: efa.ProgressManual}
			dev := &pollHook{Device: newDevice(t, f)}
			dom, cfg := domainOn(t, dev, manual), cfg
			q := newQueue(t, dom, 8)
			cfg.RecvQueue = q
			a := newEndpoint(t, dom, cfg)
			cfg.RecvQueue = nil
			b := newEndpoint(t, openDomain(t, f, manual), cfg)
			var err error
			b.peer, err = b.av.Insert(a.ep.Address())
			require.NoError(t, err)
			ctx, cs := testContext(t), make([]efa.Completion, 1)
			for _, insert := range []bool{false, true} {
				_, err := a.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 64)})
				require.NoError(t, err)
				require.Zero(t, q.TryRead(cs), "the receive is with the shard")
				from := make(chan efa.Addr, 1)
				hook := func() { // in this test's goroutine, or the shard's helper
					h, err := a.av.Insert(b.ep.Address())
					assert.NoError(t, err)
					from <- h
				}
				if insert {
					dev.before.Store(&hook)
				} else {
					from <- efa.NoAddr
				}
				require.NoError(t, b.ep.Send(ctx, b.peer, []byte("a message")))
				_, err = q.Read(ctx, cs)
				require.NoError(t, err)
				require.NoError(t, cs[0].Err)
				require.Equal(t, <-from, cs[0].From)
			}
		})
	}
}

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

// TestBadHandle: an unknown handle, and one that was removed, is an error of the call, and
// takes no place.
func TestBadHandle(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{Progress: mode})
			q := newQueue(t, dom, 2)
			s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q, TxDepth: 1, RxDepth: 1})
			mem, err := dom.Alloc(64, efa.AccessRemoteRead|efa.AccessRemoteWrite)
			require.NoError(t, err)
			defer func() { require.NoError(t, mem.Close()) }()
			at, ctx := mem.Remote(), testContext(t)
			removed, err := s.av.Insert(simAddress(5))
			require.NoError(t, err)
			require.NoError(t, s.av.Remove(ctx, removed))
			for _, to := range []efa.Addr{removed, 77, 1 << 40, efa.NoAddr, efa.AnyAddr} {
				bad := func(err error) {
					t.Helper()
					require.ErrorIs(t, err, efa.ErrInvalid)
				}
				for range 3 {
					bad(s.ep.Send(ctx, to, nil))
					bad(s.ep.Send(ctx, to, nil, efa.Inject))
					bad(s.ep.SendTag(ctx, to, 1, []byte{1}, efa.Inject))
					_, err := s.ep.PostSend(&efa.SendReq{To: to})
					bad(err)
					_, err = s.ep.PostSend(&efa.SendReq{To: to, Buf: []byte{1}, Inject: true, Quiet: true})
					bad(err)
					n, err := s.ep.PostSends([]efa.SendReq{{To: to}, {To: to}})
					for ; errors.Is(err, efa.ErrAgain); n, err = s.ep.PostSends([]efa.SendReq{{To: to}, {To: to}}) {
						require.Zero(t, n) // the place of the call before is given back at the end of a turn
					}
					require.Zero(t, n)
					bad(err)
					_, err = s.ep.Start(&efa.SendReq{To: to})
					bad(err)
					_, err = s.ep.PostWrite(&efa.WriteReq{To: to, At: at, Buf: []byte{1}})
					require.Error(t, err)
					_, err = s.ep.PostRead(&efa.ReadReq{From: to, At: at, Buf: make([]byte, 1)})
					require.Error(t, err)
					require.Error(t, s.ep.Memory(to, at).Write(ctx, []byte{1}))
					require.Error(t, s.ep.Memory(to, at).Write(ctx, []byte{1}, efa.Inject))
					require.Error(t, s.ep.Memory(to, at).Read(ctx, make([]byte, 1)))
					_, err = s.ep.PostAtomic(&efa.AtomicReq{To: to, At: at, Op: amo.Sum, Type: wire.DatatypeUint64, Operand: make([]byte, 8)})
					require.Error(t, err)
					if to == efa.AnyAddr {
						continue // a receive from everybody
					}
					_, err = s.ep.PostRecv(&efa.RecvReq{From: to, Directed: true})
					bad(err)
					n, err = s.ep.PostRecvs([]efa.RecvReq{{From: to, Directed: true}})
					require.Zero(t, n)
					bad(err)
					_, err = s.ep.Recv(ctx, nil, efa.From(to))
					bad(err)
				}
			}
			require.Zero(t, q.TryRead(make([]efa.Completion, 2)), "no completion")
			self, err := s.av.Insert(s.ep.Address())
			require.NoError(t, err)
			require.NoError(t, s.ep.Send(ctx, self, []byte{1}), "the places are free")
		})
	}
}
