package efa_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// shared is a pool, endpoints that have it, and one that sends to them.
type shared struct {
	pool   *efa.RecvPool
	queue  *efa.Queue
	eps    []*efa.Endpoint
	sender *side
	to     []efa.Addr // the endpoints, as the sender knows them
}

// newShared makes a pool with n endpoints. queues: each has one of its own.
func newShared(t testing.TB, dom, from *efa.Domain, n int, queues bool, depth int) *shared {
	t.Helper()
	s := &shared{queue: newQueue(t, dom, depth)}
	var err error
	s.pool, err = dom.NewRecvPool(efa.RecvPoolConfig{Queue: s.queue})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.pool.Close()) })
	s.sender = newEndpoint(t, from, efa.EndpointConfig{SendQueue: newQueue(t, from, 0)})
	for range n {
		cfg := efa.EndpointConfig{RecvPool: s.pool}
		if queues {
			cfg.RecvQueue = newQueue(t, dom, depth)
		}
		ep, err := dom.NewEndpoint(cfg)
		require.NoError(t, err)
		require.NoError(t, ep.Enable(context.Background()))
		t.Cleanup(func() { require.NoError(t, ep.Close()) })
		s.eps = append(s.eps, ep)
		h, err := s.sender.av.Insert(ep.Address())
		require.NoError(t, err)
		s.to = append(s.to, h)
	}
	return s
}

func sharedOnSim(t testing.TB, n int, queues bool, depth int) *shared {
	f := newFabric(t, sim.Config{InOrder: true})
	return newShared(t, openDomain(t, f, efa.DomainConfig{}), openDomain(t, f, efa.DomainConfig{}), n, queues, depth)
}

// send sends a message whose first byte is b.
func (s *shared) send(t testing.TB, to int, b byte) {
	t.Helper()
	require.NoError(t, s.sender.ep.Send(testContext(t), s.to[to], []byte{b}))
}

// unexpected waits until an endpoint keeps n messages.
func unexpected(t testing.TB, ep *efa.Endpoint, n int) {
	t.Helper()
	for ctx := testContext(t); ; {
		snap, err := ep.Snapshot(ctx)
		require.NoError(t, err)
		if snap.Queues.Unexpected == n {
			return
		}
	}
}

func (s *shared) post(t testing.TB, buf []byte, token uint64) efa.OpID {
	t.Helper()
	id, err := s.pool.Post(&efa.RecvReq{Buf: buf, Token: token})
	require.NoError(t, err)
	return id
}

// read takes the next completion of a queue.
func read(t testing.TB, q *efa.Queue) efa.Completion {
	t.Helper()
	var cs [1]efa.Completion
	_, err := q.Read(testContext(t), cs[:])
	require.NoError(t, err)
	return cs[0]
}

// TestRecvPoolAfterMulti: a receive of the pool takes one message, also where an endpoint's own
// receive of many messages was before.
func TestRecvPoolAfterMulti(t *testing.T) {
	s := sharedOnSim(t, 1, true, 0)
	own, err := s.eps[0].PostRecv(&efa.RecvReq{Buf: make([]byte, 64), Multi: true, MinLeft: 64, Token: 1})
	require.NoError(t, err)
	s.send(t, 0, 1)
	for range 2 { // the message, and the buffer's end
		require.EqualValues(t, 1, read(t, s.eps[0].RecvQueue()).Token, own)
	}
	s.post(t, make([]byte, 1), 11)
	s.post(t, make([]byte, 1), 12)
	for b := range byte(3) {
		s.send(t, 0, b)
	}
	for _, token := range []uint64{11, 12} {
		c := read(t, s.eps[0].RecvQueue())
		require.NoError(t, c.Err)
		require.Equal(t, []any{token, 1}, []any{c.Token, c.N})
	}
	unexpected(t, s.eps[0], 1)
}

// TestRecvPoolServesMany: 100 endpoints receive by 64 buffers, short and long messages, tagged
// and not, each at the queue of the endpoint that it was sent to.
func TestRecvPoolServesMany(t *testing.T) {
	for _, mode := range some(t, modes) {
		t.Run(mode.String(), func(t *testing.T) {
			f := newFabric(t, sim.Config{Seed: 3})
			many, each, bufs := less(100), 8, 64
			s := newShared(t, openDomain(t, f, efa.DomainConfig{Progress: mode}), openDomain(t, f, efa.DomainConfig{Progress: mode}),
				many, true, 0)
			ctx := testContext(t)
			mem := make([][]byte, bufs)
			post := func(i int) {
				mem[i] = make([]byte, 20_000)
				_, err := s.pool.Post(&efa.RecvReq{Buf: mem[i], Token: uint64(i), Tagged: i%2 == 1, Ignore: ^uint64(0)})
				require.NoError(t, err)
			}
			for i := range mem {
				post(i)
			}
			sent := make(chan error, 1)
			go func() {
				for k := range each {
					for i, to := range s.to {
						n := 8 + (i%3)*9000
						m := make([]byte, n)
						m[0], m[1], m[2] = byte(i), byte(k), byte(n)
						var err error
						if k%2 == 1 {
							err = s.sender.ep.SendTag(ctx, to, uint64(i), m)
						} else {
							err = s.sender.ep.Send(ctx, to, m)
						}
						if err != nil {
							sent <- err
							return
						}
					}
				}
				sent <- nil
			}()
			got := make([]int, many) // messages of each, untagged and tagged by 16
			var cs [8]efa.Completion
			for left := many * each; left > 0; {
				for i, ep := range s.eps {
					n := ep.RecvQueue().TryRead(cs[:])
					for _, c := range cs[:n] {
						require.NoError(t, c.Err)
						m := mem[c.Token]
						require.EqualValues(t, i, m[0])
						require.Equal(t, 8+(i%3)*9000, c.N)
						at := 0
						if c.Tagged {
							require.EqualValues(t, i, c.Tag)
							at = 4
						}
						require.Equal(t, got[i]>>at&15, int(m[1])/2, "messages in their order")
						got[i] += 1 << at
						left--
						post(int(c.Token))
					}
				}
			}
			require.NoError(t, <-sent)
		})
	}
}

// TestRecvPoolIsFair: while messages wait at several endpoints each gets its turn, however
// many wait at one.
func TestRecvPoolIsFair(t *testing.T) {
	s := sharedOnSim(t, 3, true, 0)
	for i := range 100 {
		s.send(t, 0, byte(i))
	}
	for i := range 3 {
		s.send(t, 1, byte(i))
	}
	s.send(t, 2, 0)
	for i, n := range []int{100, 3, 1} {
		unexpected(t, s.eps[i], n)
	}
	buf := make([]byte, 1)
	var order []int
	for range 9 {
		s.post(t, buf, 0)
		for at := 0; ; at = (at + 1) % 3 {
			var cs [1]efa.Completion
			if s.eps[at].RecvQueue().TryRead(cs[:]) == 1 {
				require.NoError(t, cs[0].Err)
				order = append(order, at)
				break
			}
		}
	}
	require.Equal(t, []int{0, 1, 2, 0, 1, 0, 1, 0, 0}, order)
}

// TestRecvPoolWaitsForRoom: an endpoint whose queue nobody reads has its messages wait, in
// their order, and takes no receive from the others.
func TestRecvPoolWaitsForRoom(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	dom := openDomain(t, f, efa.DomainConfig{})
	s := newShared(t, dom, openDomain(t, f, efa.DomainConfig{}), 1, true, 100)
	other, err := dom.NewEndpoint(efa.EndpointConfig{RecvPool: s.pool, RecvQueue: newQueue(t, dom, 2)})
	require.NoError(t, err)
	require.NoError(t, other.Enable(context.Background()))
	defer func() { require.NoError(t, other.Close()) }()
	h, err := s.sender.av.Insert(other.Address())
	require.NoError(t, err)
	s.to = append(s.to, h)

	bufs := make([]byte, 8)
	for i := range bufs {
		s.post(t, bufs[i:i+1], uint64(i))
	}
	for i := range 5 {
		s.send(t, 1, byte(10+i))
	}
	unexpected(t, other, 3) // two are in the queue
	for i := range 3 {
		s.send(t, 0, byte(20+i))
		c := read(t, s.eps[0].RecvQueue())
		require.NoError(t, c.Err)
		require.EqualValues(t, 2+i, c.Token)
		require.EqualValues(t, 20+i, bufs[c.Token])
	}
	for i := range 5 { // each that is read makes room for one
		c := read(t, other.RecvQueue())
		require.NoError(t, c.Err)
		want := i
		if i >= 2 {
			want += 3
		}
		require.Equal(t, byte(10+i), bufs[c.Token])
		require.EqualValues(t, min(want, 7), c.Token)
	}
}

// TestRecvPoolOwnReceives: what an endpoint posts itself comes before the pool's.
func TestRecvPoolOwnReceives(t *testing.T) {
	s := sharedOnSim(t, 2, true, 0)
	buf, own := make([]byte, 1), make([]byte, 1)
	s.post(t, buf, 7)
	_, err := s.eps[1].PostRecv(&efa.RecvReq{Buf: own, Token: 8})
	require.NoError(t, err)
	unposted := func() bool {
		snap, err := s.eps[1].Snapshot(testContext(t))
		require.NoError(t, err)
		return snap.Queues.PostedReceives == 0
	}
	for unposted() {
	}
	s.send(t, 1, 1)
	require.EqualValues(t, 8, read(t, s.eps[1].RecvQueue()).Token)
	s.send(t, 1, 2)
	require.EqualValues(t, 7, read(t, s.eps[1].RecvQueue()).Token)
	require.Equal(t, []byte{1, 2}, []byte{own[0], buf[0]})
	s.send(t, 0, 3)
	m, err := s.eps[0].Recv(testContext(t), own)
	require.NoError(t, err)
	require.Equal(t, 1, m.N)
	require.EqualValues(t, 3, own[0])
}

// TestRecvPoolRefuses: what cannot be is an error of the call.
func TestRecvPoolRefuses(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	dom, other := openDomain(t, f, efa.DomainConfig{Shards: 2}), openDomain(t, f, efa.DomainConfig{})
	q := newQueue(t, dom, 4)
	_, err := dom.NewRecvPool(efa.RecvPoolConfig{})
	require.ErrorIs(t, err, efa.ErrNoCQ)
	_, err = dom.NewRecvPool(efa.RecvPoolConfig{Queue: newQueue(t, other, 0)})
	require.ErrorIs(t, err, efa.ErrDomain)
	_, err = dom.NewRecvPool(efa.RecvPoolConfig{Queue: q, AV: other.NewAddressVector()})
	require.ErrorIs(t, err, efa.ErrDomain)
	_, err = dom.NewRecvPool(efa.RecvPoolConfig{Queue: q, Depth: -1})
	require.ErrorIs(t, err, efa.ErrInvalid)
	p, err := dom.NewRecvPool(efa.RecvPoolConfig{Queue: q, Depth: 3})
	require.NoError(t, err)
	require.Same(t, q, p.Queue())

	for want, c := range map[error]efa.EndpointConfig{
		efa.ErrInvalid:      {RecvPool: p, AV: dom.NewAddressVector()}, // row P08
		efa.ErrNotSupported: {RecvPool: p, Direct: true},
	} {
		_, err = dom.NewEndpoint(c)
		require.ErrorIs(t, err, want)
	}
	_, err = other.NewEndpoint(efa.EndpointConfig{RecvPool: p})
	require.ErrorIs(t, err, efa.ErrDomain)
	var eps []*efa.Endpoint
	for range 3 {
		cfg := efa.EndpointConfig{RecvPool: p}
		if len(eps) > 0 {
			cfg.AV = eps[0].AddressVector()
		}
		ep, err := dom.NewEndpoint(cfg)
		require.NoError(t, err)
		require.NoError(t, ep.Enable(context.Background()))
		eps = append(eps, ep)
		require.Same(t, eps[0].AddressVector(), ep.AddressVector())
	}

	_, err = p.Post(&efa.RecvReq{Directed: true})
	require.ErrorIs(t, err, efa.ErrNotSupported)
	for range 3 {
		_, err = p.Post(&efa.RecvReq{Buf: make([]byte, 8)})
		require.NoError(t, err)
	}
	_, err = p.Post(&efa.RecvReq{})
	require.ErrorIs(t, err, efa.ErrAgain)
	for _, ep := range eps {
		require.ErrorIs(t, p.Close(), efa.ErrBusy)
		require.NoError(t, ep.Close())
	}
	require.ErrorIs(t, dom.Close(), efa.ErrBusy)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	for range 3 {
		require.ErrorIs(t, read(t, q).Err, efa.ErrClosed)
	}
	_, err = p.Post(&efa.RecvReq{})
	require.ErrorIs(t, err, efa.ErrClosed)
	require.ErrorIs(t, p.Cancel(1), efa.ErrClosed)
	_, err = dom.NewEndpoint(efa.EndpointConfig{RecvPool: p})
	require.ErrorIs(t, err, efa.ErrClosed)
	require.NoError(t, q.Close())
}

// TestRecvPoolEnds: receives end once each: canceled, with their endpoint, with their region, with
// the pool.
func TestRecvPoolEnds(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	dom := openDomain(t, f, efa.DomainConfig{})
	s := newShared(t, dom, openDomain(t, f, efa.DomainConfig{}), 2, true, 0)
	buf := make([]byte, 1<<20)

	id := s.post(t, buf[:1], 1)
	require.NoError(t, s.pool.Cancel(id))
	c := read(t, s.queue)
	require.ErrorIs(t, c.Err, efa.ErrCanceled)
	require.Equal(t, id, c.ID)
	require.EqualValues(t, 1, c.Token)
	require.NoError(t, s.pool.Cancel(id), "what has ended")

	region, err := dom.Alloc(64, 0)
	require.NoError(t, err)
	s.post(t, region.Bytes(), 2)
	kept := s.post(t, buf[:1], 3)
	require.NoError(t, region.Close())
	require.EqualValues(t, 2, read(t, s.queue).Token)

	// One message stands at each end of a closed endpoint's: the pool's receive stays for
	// the other.
	require.NoError(t, s.eps[0].Close())
	s.send(t, 1, 9)
	c = read(t, s.eps[1].RecvQueue())
	require.Equal(t, kept, c.ID)
	require.NoError(t, c.Err)

	s.post(t, buf[:1], 4)
	require.NoError(t, s.eps[1].Close())
	require.NoError(t, s.pool.Close())
	c = read(t, s.queue)
	require.EqualValues(t, 4, c.Token)
	require.ErrorIs(t, c.Err, efa.ErrClosed)
	var none [1]efa.Completion
	require.Zero(t, s.queue.TryRead(none[:]))
}

// TestRecvPoolInProgress: a receive that a long message has begun to fill is the endpoint's: it can be
// canceled by the pool, and ends with the endpoint and with the peer.
func TestRecvPoolInProgress(t *testing.T) {
	for _, how := range []string{"cancel", "close", "sender closes"} {
		t.Run(how, func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			s := newShared(t, openDomain(t, f, efa.DomainConfig{}), openDomain(t, f, efa.DomainConfig{}), 2, true, 0)
			buf := make([]byte, 64<<20)
			id := s.post(t, buf, 1)
			op, err := s.sender.ep.Start(&efa.SendReq{To: s.to[0], Buf: make([]byte, len(buf))})
			require.NoError(t, err)
			for {
				snap, err := s.eps[0].Snapshot(testContext(t))
				require.NoError(t, err)
				if len(snap.Operations) > 0 {
					break
				}
			}
			switch how {
			case "cancel":
				require.NoError(t, s.pool.Cancel(id))
			case "close":
				require.NoError(t, s.eps[0].Close())
			default:
				require.NoError(t, s.sender.ep.Close())
				require.NoError(t, s.eps[0].Close()) // nobody says that it is gone
			}
			c := read(t, s.eps[0].RecvQueue())
			require.Equal(t, id, c.ID)
			require.True(t, c.Err == nil || isAny(c.Err, efa.ErrCanceled, efa.ErrClosed, efa.ErrPeerFailed, efa.ErrPeerAborted), fmt.Sprint(c.Err))
			if how == "cancel" {
				_, _ = op.Wait(testContext(t))
			}
			s.post(t, buf[:1], 2) // its place is free again
		})
	}
}

// TestRecvPoolAllocatesNothing: a receive of a pool, from its posting to its completion.
func TestRecvPoolAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, queues := range []bool{false, true} {
		f := newFabric(t, sim.Config{InOrder: true})
		manual := efa.DomainConfig{Progress: efa.ProgressManual}
		s := newShared(t, openDomain(t, f, manual), openDomain(t, f, manual), 3, queues, 0)
		buf, m, ctx := make([]byte, 64), make([]byte, 64), context.Background()
		var cs [1]efa.Completion
		i := 0
		one := func() {
			_, _ = s.pool.Post(&efa.RecvReq{Buf: buf, Token: 1})
			i = (i + 1) % 3
			_ = s.sender.ep.Send(ctx, s.to[i], m)
			q := s.queue
			if queues {
				q = s.eps[i].RecvQueue()
			}
			_, _ = q.Read(ctx, cs[:])
		}
		for range 300 {
			one()
			require.NoError(t, cs[0].Err)
			require.EqualValues(t, 1, cs[0].Token)
		}
		require.Less(t, fewestAllocs(100, one), 0.1)
	}
}
