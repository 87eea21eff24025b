package efa_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// posted makes a pair whose endpoints report to queues of the given depth.
func posted(t testing.TB, depth int, ec efa.EndpointConfig) (a, b *side, qa, qb *efa.Queue) {
	t.Helper()
	f := newFabric(t, sim.Config{InOrder: true})
	mk := func() (*side, *efa.Queue) {
		fab, err := efa.Open(efa.Config{Device: newDevice(t, f)})
		require.NoError(t, err)
		dom, err := fab.OpenDomain(efa.DomainConfig{Progress: efa.ProgressManual})
		require.NoError(t, err)
		q, err := dom.NewQueue(depth)
		require.NoError(t, err)
		c := ec
		c.AV, c.SendQueue, c.RecvQueue = dom.NewAddressVector(), q, q
		ep, err := dom.NewEndpoint(c)
		require.NoError(t, err)
		require.NoError(t, ep.Enable(context.Background()))
		t.Cleanup(func() {
			require.NoError(t, ep.Close())
			require.NoError(t, dom.Close())
		})
		return &side{dom: dom, av: c.AV, ep: ep}, q
	}
	a, qa = mk()
	b, qb = mk()
	introduce(t, a, b)
	return a, b, qa, qb
}

// TestPostAllocations: a posted send and receive allocate nothing, and neither
// does a blocking call that needs not park.
func TestPostAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b, qa, qb := posted(t, 64, efa.EndpointConfig{})
	src, dst := make([]byte, 100), make([]byte, 100)
	send, recv := efa.SendReq{To: a.peer, Buf: src}, efa.RecvReq{Buf: dst}
	var cs [8]efa.Completion
	one := func() {
		_, err := b.ep.PostRecv(&recv)
		require.NoError(t, err)
		_, err = a.ep.PostSend(&send)
		require.NoError(t, err)
		for n, m := 0, 0; n == 0 || m == 0; {
			n += qa.TryRead(cs[:])
			m += qb.TryRead(cs[:])
		}
	}
	for range 200 {
		one()
	}
	require.Zero(t, fewestAllocs(500, one))
}

// TestBackpressure: with a small queue nothing is lost; the caller gets ErrAgain
// and tries again.
func TestBackpressure(t *testing.T) {
	const n = 3000
	a, b, qa, qb := posted(t, 4, efa.EndpointConfig{TxDepth: 3, RxDepth: 3, Protocol: efa.ProtocolConfig{SendQueue: 2, RecvQueue: 4}})
	buf := make([]byte, 8)
	var cs [4]efa.Completion
	sent, received, posts, recvs, again := 0, 0, 0, 0, 0
	for sent < n || received < n {
		for posts < n {
			if _, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf}); err != nil {
				require.ErrorIs(t, err, efa.ErrAgain)
				again++
				break
			}
			posts++
		}
		for recvs < n {
			if _, err := b.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 8)}); err != nil {
				require.ErrorIs(t, err, efa.ErrAgain)
				break
			}
			recvs++
		}
		for _, c := range cs[:qa.TryRead(cs[:])] {
			require.NoError(t, c.Err)
			sent++
		}
		for _, c := range cs[:qb.TryRead(cs[:])] {
			require.NoError(t, c.Err)
			received++
		}
	}
	require.Positive(t, again)
	require.Zero(t, qa.TryRead(cs[:])+qb.TryRead(cs[:]))
}

// TestCloseGivesOutcomes: everything in progress ends once, with ErrClosed.
func TestCloseGivesOutcomes(t *testing.T) {
	a, _, qa, _ := posted(t, 512, efa.EndpointConfig{})
	want := map[efa.OpID]bool{}
	for i := range 200 {
		id, err := a.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 8), Tagged: i%2 == 0, Tag: uint64(i)})
		require.NoError(t, err)
		want[id] = true
	}
	for range 20 {
		// Nobody receives them: long ones cannot end.
		id, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: make([]byte, 1<<20)})
		require.NoError(t, err)
		want[id] = true
	}
	require.NoError(t, a.ep.Close())
	_, err := a.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 8)})
	require.ErrorIs(t, err, efa.ErrClosed)
	cs := make([]efa.Completion, 512)
	n := qa.TryRead(cs)
	for _, c := range cs[:n] {
		require.True(t, want[c.ID], "operation %d has two outcomes", c.ID)
		delete(want, c.ID)
		require.ErrorIs(t, c.Err, efa.ErrClosed)
	}
	require.Empty(t, want)
	_, err = qa.Read(testContext(t), cs)
	require.ErrorIs(t, err, efa.ErrClosed)
}

// TestCancel: a posted receive ends with ErrCanceled at once; canceling what has
// ended does nothing.
func TestCancel(t *testing.T) {
	a, b, _, qb := posted(t, 16, efa.EndpointConfig{})
	id, err := b.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 8), Token: 77})
	require.NoError(t, err)
	require.NoError(t, b.ep.Cancel(id))
	require.NoError(t, b.ep.Cancel(id))
	var cs [4]efa.Completion
	n, err := qb.Read(testContext(t), cs[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.ErrorIs(t, cs[0].Err, efa.ErrCanceled)
	require.ErrorIs(t, cs[0].Err, context.Canceled)
	require.EqualValues(t, 77, cs[0].Token)

	// The message that comes later goes to the next receive.
	require.NoError(t, a.ep.Send(testContext(t), a.peer, []byte("later"), efa.Inject))
	buf := make([]byte, 8)
	m, err := b.ep.Recv(testContext(t), buf)
	require.NoError(t, err)
	require.Equal(t, "later", string(buf[:m.N]))
	require.NoError(t, b.ep.Cancel(id))
	require.Zero(t, qb.TryRead(cs[:]))
}

// TestContext: a blocking call ends with its context and leaves nothing behind.
func TestContext(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := newPair(t, efa.DomainConfig{Progress: mode})
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			defer cancel()
			_, err := b.ep.Recv(ctx, make([]byte, 8))
			require.ErrorIs(t, err, efa.ErrCanceled)
			require.ErrorIs(t, err, context.DeadlineExceeded)

			// A long message that nobody receives: what is left of it is within
			// DetachLimit, so Send returns and the message goes on from a copy.
			ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			p := pattern(500000)
			err = a.ep.Send(ctx, a.peer, p)
			require.ErrorIs(t, err, efa.ErrCanceled)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			clear(p)
			// Unless nothing had been sent, in which case it was withdrawn.
			marker := make(chan error, 1)
			go func() { marker <- a.ep.Send(testContext(t), a.peer, []byte("marker")) }()
			q := make([]byte, 500000)
			left := err
			m, err := b.ep.Recv(testContext(t), q)
			require.NoError(t, err)
			require.Equal(t, m.N == len(q), errors.Is(left, efa.ErrAlready))
			if m.N == len(q) {
				require.Equal(t, pattern(500000), q)
				m, err = b.ep.Recv(testContext(t), q)
				require.NoError(t, err)
			}
			require.Equal(t, "marker", string(q[:m.N]))
			require.NoError(t, <-marker)

			cause := errors.New("enough")
			ctx, stop := context.WithCancelCause(context.Background())
			stop(cause)
			_, err = b.ep.Recv(ctx, q)
			require.ErrorIs(t, err, cause)
		})
	}
}

// TestQuietAndCounters: silent operations count, and fail loudly.
func TestQuietAndCounters(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	fab, err := efa.Open(efa.Config{Device: newDevice(t, f)})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	q, err := dom.NewQueue(8)
	require.NoError(t, err)
	sends, recvs := dom.NewCounter(), dom.NewCounter()
	av := dom.NewAddressVector()
	ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av, SendQueue: q, RecvQueue: q, SendCounter: sends, RecvCounter: recvs})
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	self, err := av.Insert(ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)
	for range 5 {
		_, err := ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 4), Quiet: true})
		require.NoError(t, err)
	}
	for i := range 5 {
		_, err := ep.PostSend(&efa.SendReq{To: self, Buf: make([]byte, 4+i/4), Quiet: true})
		require.NoError(t, err)
	}
	require.NoError(t, sends.Wait(ctx, 5))
	var ce *efa.CounterError
	require.ErrorAs(t, recvs.Wait(ctx, 5), &ce)
	ok, failed := recvs.Value()
	require.Equal(t, []uint64{4, 1}, []uint64{ok, failed})
	var cs [8]efa.Completion
	n, err := q.Read(ctx, cs[:]) // at the end of the turn that has counted it
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.ErrorIs(t, cs[0].Err, efa.ErrTruncated)
	require.Zero(t, q.TryRead(cs[:]))
	require.NoError(t, ep.Close())
	require.NoError(t, dom.Close())
}

// TestReadN: it returns with all that was asked for and no more, also beyond the queue's depth,
// or with what came and the reason.
func TestReadN(t *testing.T) {
	const depth, n = 4, 50
	a, b := lab{depth: depth, mode: efa.ProgressPinned}.open(t)
	ctx, q := testContext(t), b.ep.RecvQueue()
	m := alloc(t, b, 64, remote)
	write := func(i int) error {
		return a.ep.Memory(a.peer, m.Remote()).Write(ctx, nil, efa.Data(uint64(i)), efa.Complete(efa.Delivered))
	}
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			for i := range n + 3 {
				if err := write(i); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	cs := make([]efa.Completion, n+3)
	got, err := q.ReadN(ctx, cs, n)
	require.NoError(t, err)
	require.Equal(t, n, got)
	require.NoError(t, <-sent)
	for i, c := range cs[:n] {
		require.Equal(t, uint64(i), c.Data)
	}
	require.Zero(t, cs[n], "no more than n")
	got, err = q.ReadN(ctx, cs, 3)
	require.NoError(t, err)
	require.Equal(t, 3, got)

	for _, bad := range []int{-1, 0, len(cs) + 1} {
		_, err := q.ReadN(ctx, cs, bad)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	short, cancel := context.WithCancel(ctx)
	require.NoError(t, write(77))
	c := next(t, b)
	require.Equal(t, uint64(77), c.Data)
	type end struct {
		n   int
		err error
	}
	ended := make(chan end, 1)
	go func() {
		k, err := q.ReadN(short, cs, 2)
		ended <- end{k, err}
	}()
	require.NoError(t, write(78))
	for q.Used() > 0 { // it has taken the first
		require.NoError(t, ctx.Err())
	}
	cancel()
	e := <-ended
	require.ErrorIs(t, e.err, context.Canceled)
	require.Equal(t, 1, e.n)
	require.Equal(t, uint64(78), cs[0].Data)
	go func() {
		k, err := q.ReadN(ctx, cs, 1)
		ended <- end{k, err}
	}()
	require.NoError(t, b.ep.Close())
	e = <-ended
	require.ErrorIs(t, e.err, efa.ErrClosed)
	require.Zero(t, e.n)
}
