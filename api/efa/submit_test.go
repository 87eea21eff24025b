package efa_test

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// TestPostsAllocateNothing: a posted operation of each kind, as a user writes it with a struct
// in the call, allocates nothing.
func TestPostsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b := lab{dev: sim.DeviceConfig{}, mode: efa.ProgressManual}.open(t)
	there, ctx := alloc(t, b, 4096, remote), context.Background()
	at, buf := there.Remote(), make([]byte, 64)
	operand, what := efa.Elements([]uint64{1})
	result, _ := efa.Elements([]uint64{0})
	var sends [4]efa.SendReq
	var recvs [4]efa.RecvReq
	for i := range sends {
		sends[i], recvs[i] = efa.SendReq{To: a.peer, Buf: buf}, efa.RecvReq{Buf: there.Bytes()}
	}
	var cs [8]efa.Completion
	finish := func(s *side, n int) {
		for n > 0 {
			k, err := s.ep.SendQueue().Read(ctx, cs[:n])
			require.NoError(t, err)
			for _, c := range cs[:k] {
				require.NoError(t, c.Err)
			}
			n -= k
		}
	}
	for name, one := range map[string]func() error{
		"send and receive": func() error {
			if _, err := b.ep.PostRecv(&efa.RecvReq{Buf: there.Bytes(), Token: 1}); err != nil {
				return err
			}
			_, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Token: 1})
			finish(a, 1)
			finish(b, 1)
			return err
		},
		"sends and receives": func() error {
			if _, err := b.ep.PostRecvs(recvs[:]); err != nil {
				return err
			}
			_, err := a.ep.PostSends(sends[:])
			finish(a, len(sends))
			finish(b, len(recvs))
			return err
		},
		"write": func() error {
			_, err := a.ep.PostWrite(&efa.WriteReq{To: a.peer, At: at, Buf: buf, Level: efa.Delivered, Token: 1})
			finish(a, 1)
			return err
		},
		"read": func() error {
			_, err := a.ep.PostRead(&efa.ReadReq{From: a.peer, At: at, Buf: buf, Token: 1})
			finish(a, 1)
			return err
		},
		"atomic": func() error {
			_, err := a.ep.PostAtomic(&efa.AtomicReq{
				To: a.peer, At: at, Op: amo.Sum, Type: what, Form: amo.Fetch, Operand: operand, Result: result, Token: 1,
			})
			finish(a, 1)
			return err
		},
	} {
		for range 100 {
			require.NoError(t, one(), name)
		}
		require.Less(t, fewestAllocs(100, func() { _ = one() }), 0.1, name) // an error would leave nothing to read
	}
}

// TestPostSends: a batch is taken up to the first that there is no room for or that is
// wrong, in its order, and what it took beyond that is given back.
func TestPostSends(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{})
	q := newQueue(t, dom, 8)
	s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: newQueue(t, dom, 100), TxDepth: 6, RxDepth: 20})
	self, err := s.av.Insert(s.ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)
	reqs := make([]efa.SendReq, 10)
	for i := range reqs {
		reqs[i] = efa.SendReq{To: self, Buf: []byte{byte(i)}, Level: efa.Delivered, Token: uint64(i)}
	}
	n, err := s.ep.PostSends(reqs)
	require.Equal(t, 6, n)
	require.ErrorIs(t, err, efa.ErrAgain)
	recvs, bufs := make([]efa.RecvReq, 10), make([]byte, 10)
	for i := range recvs {
		recvs[i] = efa.RecvReq{Buf: bufs[i : i+1], Token: uint64(i)}
	}
	n, err = s.ep.PostRecvs(recvs)
	require.Equal(t, 10, n)
	require.NoError(t, err)
	read := func(q *efa.Queue, n int) {
		t.Helper()
		var cs [16]efa.Completion
		for i := 0; i < n; {
			k, err := q.Read(ctx, cs[:])
			require.NoError(t, err)
			for _, c := range cs[:k] {
				require.NoError(t, c.Err)
				require.EqualValues(t, i, c.Token)
				i++
			}
		}
		require.Zero(t, q.TryRead(cs[:]))
	}
	read(q, 6)
	require.Equal(t, []byte{0, 1, 2, 3, 4, 5, 0, 0, 0, 0}, bufs)

	reqs[2].Level = efa.Delivered + 1
	n, err = s.ep.PostSends(reqs[:4])
	require.Equal(t, 2, n)
	require.ErrorIs(t, err, efa.ErrInvalid)
	read(q, 2)
	n, err = s.ep.PostSends(nil)
	require.Zero(t, n)
	require.NoError(t, err)

	// The queue is what bounds these, and the places are all free again.
	for i := range reqs {
		reqs[i] = efa.SendReq{To: self, Level: efa.Delivered, Token: uint64(i)}
	}
	n, err = s.ep.PostSends(reqs[:2])
	require.NoError(t, err)
	require.Equal(t, 2, n)
	read(q, 2)
	n, err = s.ep.PostSends(reqs)
	require.Equal(t, 6, n)
	require.ErrorIs(t, err, efa.ErrAgain)
	n, err = s.ep.PostRecvs(recvs)
	require.Equal(t, 10, n)
	require.NoError(t, err)
	read(q, 6)
	require.NoError(t, s.ep.Shutdown(ctx))
	n, err = s.ep.PostSends(reqs)
	require.Zero(t, n)
	require.ErrorIs(t, err, efa.ErrClosed)
}

// TestRefusedPostsHaveNoPlace: a posted operation that is refused for what it asks gives back all that was
// taken for it, its slot in the queue if it had one, its place and its request in the ring.
func TestRefusedPostsHaveNoPlace(t *testing.T) {
	const depth = 4
	a, b := lab{dev: sim.DeviceConfig{}, mode: efa.ProgressManual, depth: depth}.open(t)
	buf, into, ctx := make([]byte, 8), make([]byte, 8), testContext(t)
	long := make([]byte, 1<<16)
	refused := map[string]func() error{
		"level": func() error { return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Level: 99})) },
		"quiet, level": func() error {
			return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Level: 99, Quiet: true}))
		},
		"inject, level": func() error {
			return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Level: 99, Inject: true}))
		},
		"inject":      func() error { return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: long, Inject: true})) },
		"multi":       func() error { return second(a.ep.PostRecv(&efa.RecvReq{Multi: true})) },
		"quiet multi": func() error { return second(a.ep.PostRecv(&efa.RecvReq{Multi: true, Quiet: true})) },
	}
	for name, post := range refused {
		for range 2000 { // more often than there are places
			err := post()
			require.Error(t, err, name)
			require.NotErrorIs(t, err, efa.ErrAgain, name)
			a.ep.SendQueue().TryRead(make([]efa.Completion, 1)) // has the shard look at the ring
		}
		for range depth {
			require.NoError(t, second(b.ep.PostRecv(&efa.RecvReq{Buf: into})), name)
			require.NoError(t, second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf})), name)
		}
		require.ErrorIs(t, second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf})), efa.ErrAgain, name)
		for _, s := range []*side{a, b} {
			for n := 0; n < depth; {
				var cs [depth]efa.Completion
				k, err := s.ep.SendQueue().Read(ctx, cs[:])
				require.NoError(t, err, name)
				n += k
			}
		}
	}
}

// TestBlockingCallsSideBySide: goroutines that block in calls of one endpoint each get their own
// outcome, whichever of them has the call that the endpoint keeps.
func TestBlockingCallsSideBySide(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx := testContext(t)
	const callers, rounds = 4, 50
	var wg sync.WaitGroup
	for tag := range uint64(callers) {
		wg.Go(func() { sideBySide(ctx, t, tag, rounds, a) })
		wg.Go(func() {
			for i := range uint64(rounds) {
				buf := make([]byte, 8)
				m, err := b.ep.RecvTag(ctx, efa.Match{Tag: tag}, buf)
				if !assert.NoError(t, err) {
					return
				}
				assert.Equal(t, 8, m.N)
				assert.Equal(t, tag, m.Tag)
				assert.Equal(t, tag<<32|i, binary.NativeEndian.Uint64(buf))
			}
		})
	}
	wg.Wait()
}

// sideBySide sends numbered messages with one tag, injected and not.
func sideBySide(ctx context.Context, t *testing.T, tag, rounds uint64, from *side) {
	for i := range rounds {
		var opts []efa.OpOption
		if i%3 == 0 {
			opts = append(opts, efa.Inject)
		}
		if !assert.NoError(t, from.ep.SendTag(ctx, from.peer, tag, binary.NativeEndian.AppendUint64(nil, tag<<32|i), opts...)) {
			return
		}
	}
}
