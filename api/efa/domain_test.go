package efa_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestSharedQueue: one queue serves the endpoints of several shards; each
// endpoint's completions keep their order.
func TestSharedQueue(t *testing.T) {
	const endpoints, messages = 8, 200
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{Progress: mode, Shards: 3})
			q, av := newQueue(t, dom, 64), dom.NewAddressVector()
			var eps []*efa.Endpoint
			var as []efa.Address
			for range endpoints {
				s := newEndpoint(t, dom, efa.EndpointConfig{AV: av, SendQueue: q, RecvQueue: q})
				eps, as = append(eps, s.ep), append(as, s.ep.Address())
			}
			to, err := av.InsertAll(as...)
			require.NoError(t, err)
			ctx := testContext(t)
			// Each endpoint sends to the next, one message at a time.
			post := func(i, n int) {
				_, err := eps[(i+1)%endpoints].PostRecv(&efa.RecvReq{Buf: make([]byte, 8), Token: uint64(i)})
				require.NoError(t, err)
				_, err = eps[i].PostSend(&efa.SendReq{To: to[(i+1)%endpoints], Buf: make([]byte, 1+n%8), HasData: true, Data: uint64(n)})
				require.NoError(t, err)
			}
			var got, sent [endpoints]int
			for i := range endpoints {
				post(i, 0)
			}
			var cs [16]efa.Completion
			for total := 0; total < 2*endpoints*messages; {
				n, err := q.Read(ctx, cs[:])
				require.NoError(t, err)
				total += n
				for _, c := range cs[:n] {
					require.NoError(t, c.Err)
					i := int(c.Token)
					if c.Kind == efa.Sent {
						i = (int(c.From) + endpoints - 1) % endpoints
						sent[i]++
					} else {
						require.EqualValues(t, got[i], c.Data)
						require.Equal(t, to[i], c.From)
						got[i]++
					}
					if got[i] == sent[i] && got[i] < messages { // or shards that lag would fill the queue
						post(i, got[i])
					}
				}
			}
			for i := range endpoints {
				require.Equal(t, []int{messages, messages}, []int{got[i], sent[i]})
			}
			require.Zero(t, q.TryRead(cs[:]))
		})
	}
}

// TestQueueReaders: readers wait for their turn no longer than their context, and
// none sleeps while there is something to read.
func TestQueueReaders(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	q := newQueue(t, dom, 64)
	s := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q})
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var first sync.WaitGroup
	for range 3 {
		first.Go(func() {
			var cs [1]efa.Completion
			_, err := q.Read(short, cs[:])
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	within(t, "a reader", first.Wait)

	const n = 3000
	ctx, enough := context.WithCancel(testContext(t))
	var read atomic.Int64
	count := func(k int) {
		if read.Add(int64(k)) == n {
			enough()
		}
	}
	var readers sync.WaitGroup
	for i := range 6 {
		readers.Go(func() {
			cs := make([]efa.Completion, 1+i)
			for ctx.Err() == nil {
				if i%2 == 0 {
					count(q.TryRead(cs))
					continue
				}
				k, _ := q.Read(ctx, cs) // ends with ctx, tested above
				count(k)
			}
		})
	}
	for posted := 0; posted < n; {
		if id, err := s.ep.PostRecv(&efa.RecvReq{}); err == nil {
			posted++
			require.NoError(t, s.ep.Cancel(id))
		}
	}
	within(t, "reading", readers.Wait)
	require.EqualValues(t, n, read.Load())
}

// TestManyGoroutines: 64 goroutines use one endpoint, blocking and posting at once;
// each operation has its one outcome.
func TestManyGoroutines(t *testing.T) {
	const workers = 64
	each := less(20)
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{Progress: mode})
			q := newQueue(t, dom, 32)
			s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q, TxDepth: 16})
			self, err := s.av.Insert(s.ep.Address())
			require.NoError(t, err)
			ctx, enough := context.WithCancel(testContext(t))
			var left atomic.Int64
			left.Store(int64(workers / 2 * each))
			var all sync.WaitGroup
			all.Go(func() {
				seen := map[efa.OpID]bool{}
				var cs [1]efa.Completion
				for {
					if _, err := q.Read(ctx, cs[:]); err != nil {
						assert.ErrorIs(t, err, efa.ErrCanceled)
						return
					}
					c := cs[0]
					assert.NoError(t, c.Err)
					assert.False(t, seen[c.ID])
					seen[c.ID] = true
					if left.Add(-1) == 0 {
						enough()
					}
				}
			})
			for w := range workers {
				tag := uint64(w)
				all.Go(func() {
					for n := range each {
						if w%2 == 0 { // posts what it sends
							for {
								if _, err := s.ep.PostSend(&efa.SendReq{To: self, Buf: fmt.Append(nil, n), Tagged: true, Tag: tag}); err == nil {
									break
								}
								runtime.Gosched()
							}
						} else {
							go func() { assert.NoError(t, s.ep.SendTag(testContext(t), self, tag<<32|uint64(n), fmt.Append(nil, n))) }()
						}
						m := efa.Match{Tag: tag}
						if w%2 == 1 {
							m.Tag = tag<<32 | uint64(n)
						}
						buf := make([]byte, 8)
						r, err := s.ep.RecvTag(testContext(t), m, buf)
						assert.NoError(t, err)
						assert.Equal(t, fmt.Sprint(n), string(buf[:r.N]))
					}
				})
			}
			within(t, "a worker", all.Wait)
			require.Zero(t, left.Load())
		})
	}
}

// TestAsleep: a long message gets through while both applications wait for
// something else.
func TestAsleep(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			for wait := 250 * time.Millisecond; !arrivesAsleep(t, mode, wait); wait *= 4 {
				require.Less(t, wait, 30*time.Second, "nobody makes progress") // a busy machine makes some
			}
		})
	}
}

// arrivesAsleep reports whether a long message has arrived after a while in which nobody
// made a call, and the sender knows.
func arrivesAsleep(t *testing.T, mode efa.Progress, wait time.Duration) bool {
	f := newFabric(t, sim.Config{InOrder: true})
	make1 := func() (*side, *efa.Queue) {
		dom := openDomain(t, f, efa.DomainConfig{Progress: mode})
		q := newQueue(t, dom, 4)
		return newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q}), q
	}
	a, qa := make1()
	b, qb := make1()
	introduce(t, a, b)
	p, got := pattern(8<<20), make([]byte, 8<<20)
	_, err := b.ep.PostRecv(&efa.RecvReq{Buf: got})
	require.NoError(t, err)
	_, err = a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: p})
	require.NoError(t, err)
	op, err := a.ep.Start(&efa.RecvReq{Buf: make([]byte, 1)}) // never polled either
	require.NoError(t, err)
	elsewhere, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	<-elsewhere.Done()
	// The test is that both are there; TryRead of an empty queue would
	// make progress, so it is asked once.
	var cs [4]efa.Completion
	for _, q := range []*efa.Queue{qa, qb} {
		if q.TryRead(cs[:]) == 0 {
			return false
		}
		require.NoError(t, cs[0].Err)
	}
	require.Equal(t, p, got)
	require.NoError(t, b.ep.Send(testContext(t), b.peer, []byte{1}, efa.Inject))
	select {
	case <-op.Done():
	case <-testContext(t).Done():
		t.Fatal("nobody makes progress")
	}
	return true
}

// TestProgressWithoutCalls: ofiwg/libfabric#7313 in real time. In each mode of progress a
// receiver whose program makes no call after it posted a receive answers HANDSHAKE,
// receives, and serves what others write and read.
func TestProgressWithoutCalls(t *testing.T) {
	for _, mode := range []efa.Progress{efa.ProgressPinned, efa.ProgressManual} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			ctx := testContext(t)
			f := newFabric(t, sim.Config{})
			a := open(t, newDevice(t, f), efa.DomainConfig{})
			dom := domainOn(t, newDevice(t, f), efa.DomainConfig{Progress: mode})
			b := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: newQueue(t, dom, 8)})
			introduce(t, a, b)
			m, err := b.dom.Alloc(100_000, efa.AccessRemoteRead|efa.AccessRemoteWrite)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			_, err = b.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 100_000)})
			require.NoError(t, err)

			require.NoError(t, a.ep.Send(ctx, a.peer, make([]byte, 100_000), efa.Complete(efa.Delivered)))
			at := a.ep.Memory(a.peer, m.Remote())
			require.NoError(t, at.Write(ctx, make([]byte, 100_000), efa.Complete(efa.Delivered)))
			require.NoError(t, at.Read(ctx, make([]byte, 100_000)))
		})
	}
}

// TestFootprint: bytes of heap for an address that is never used, for a peer that
// is idle, and for a receive that waits.
func TestFootprint(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has its own idea of memory")
	}
	// Many peers, so that the tables of actors are neither all full nor all half
	// empty.
	const addresses, peers = 50_000, 12_000
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	q := newQueue(t, dom, peers)
	s := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q})
	cs := make([]efa.Completion, peers)
	buf := make([]byte, 8)
	settle := func(from, to efa.Addr) { // post to each, cancel, read
		for h := from; h < to; h++ {
			id, err := s.ep.PostRecv(&efa.RecvReq{From: h, Directed: true, Buf: buf})
			require.NoError(t, err)
			require.NoError(t, s.ep.Cancel(id))
			n, err := q.Read(context.Background(), cs)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.ErrorIs(t, cs[0].Err, efa.ErrCanceled)
			cs[0] = efa.Completion{}
		}
	}
	_, err := s.av.Insert(simAddress(addresses))
	require.NoError(t, err)
	settle(0, 1) // what comes once

	insert := func() {
		for i := range uint32(addresses) {
			if _, err := s.av.Insert(simAddress(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(what string, n, most int, f func()) {
		before := heap()
		f()
		each := (heap() - before) / n
		t.Logf("%s: %d B", what, each)
		require.Positive(t, each)
		require.LessOrEqual(t, each, most, what)
	}
	check("address never used", addresses, 192, insert)
	check("idle peer", peers, 1344, func() { settle(1, 1+peers) })
	check("posted receive", peers, 1024, func() {
		for n := 0; n < peers; {
			if _, err := s.ep.PostRecv(&efa.RecvReq{Buf: buf}); err == nil {
				n++
				continue
			}
			runtime.Gosched() // the way to the shard is full
		}
		_, err := s.ep.Stats(testContext(t)) // comes after them
		require.NoError(t, err)
	})
	runtime.KeepAlive(cs)
}

func heap() int {
	runtime.GC()
	runtime.GC() // what sync.Pool kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
