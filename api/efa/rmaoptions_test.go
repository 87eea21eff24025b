package efa_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/wire"
)

// TestInjectedWrites: the buffer is free when the call returns, up to the limit, and
// data and failures come where they should.
func TestInjectedWrites(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		limit := a.dom.Limits().MaxInject
		there := alloc(t, b, 1<<20, remote)
		for i := range 60 {
			n := []int{0, 1, 500, limit}[i%4]
			p := bytes.Repeat([]byte{byte(i + 1)}, n)
			at := there.Remote().Slice(uint64(i*limit), uint64(limit))
			switch i % 3 {
			case 0:
				require.NoError(t, a.ep.Memory(a.peer, at).Write(ctx, p, efa.Inject, efa.Data(uint64(i)), efa.Complete(efa.Delivered)))
			case 1:
				_, err := a.ep.PostWrite(&efa.WriteReq{To: a.peer, At: at, Bufs: [][]byte{p[:n/2], p[n/2:]}, Inject: true, HasData: true, Data: uint64(i)})
				require.NoError(t, err)
			default:
				require.NoError(t, a.ep.Memory(a.peer, at).Write(ctx, p, efa.Inject, efa.Data(uint64(i))))
			}
			clear(p)
			c := next(t, b)
			require.Equal(t, []any{efa.RemoteWrite, n, uint64(i)}, []any{c.Kind, c.N, c.Data})
			require.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, n), there.Bytes()[i*limit:][:n])
		}
		over := make([]byte, limit+1)
		require.ErrorIs(t, a.ep.Memory(a.peer, there.Remote()).Write(ctx, over, efa.Inject), efa.ErrMsgSize)
		many := make([]uint64, limit/8+1)
		require.ErrorIs(t, efa.NewCell[uint64](a.ep.Memory(a.peer, there.Remote())).Update(ctx, amo.Sum, many, efa.Inject), efa.ErrMsgSize)

		// For what fetches it means nothing: the result is there.
		over[0] = there.Bytes()[0]
		was := []uint8{0}
		done(t, start(t, a, &efa.AtomicReq{
			To: a.peer, At: there.Remote(), Op: amo.Sum, Type: wire.DatatypeUint8, Form: amo.Fetch,
			Operand: []byte{9}, Result: was, Inject: true,
		}))
		require.Equal(t, over[0], was[0])
		var cs [1]efa.Completion
		require.Zero(t, a.ep.SendQueue().TryRead(cs[:]), "no completions of what was injected")
	})
}

// TestRefusedHere: what cannot be is refused before anything is sent.
func TestRefusedHere(t *testing.T) {
	a, b := lab{}.open(t)
	ctx := testContext(t)
	at := alloc(t, b, 100, remote).Remote()
	two := [][]byte{{1}}
	around := efa.RawRemote(^uint64(0)-5, 10, 1)
	for _, err := range []error{
		a.ep.Memory(a.peer, at).Write(ctx, make([]byte, 101)),
		a.ep.Memory(a.peer, at).Read(ctx, make([]byte, 101)),
		a.ep.Memory(a.peer, at.Slice(10, 5)).Read(ctx, make([]byte, 6)),
		a.ep.Memory(a.peer, around).Write(ctx, nil),
		second(a.ep.Start(&efa.WriteReq{To: a.peer, At: at, Buf: []byte{1}, Bufs: two})),
		second(a.ep.Start(&efa.ReadReq{From: a.peer, At: at, Buf: []byte{1}, Bufs: two})),
		second(efa.NewCell[int64](a.ep.Memory(a.peer, at.Slice(0, 7))).Load(ctx)),
		a.ep.Memory(77, at).Write(ctx, nil), a.ep.Memory(77, at).Read(ctx, nil), efa.NewCell[int8](a.ep.Memory(77, at)).Add(ctx, int8(1)),
	} {
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	require.ErrorIs(t, second(newEndpoint(t, a.dom, efa.EndpointConfig{}).ep.PostWrite(&efa.WriteReq{})), efa.ErrNoCQ)
	require.NoError(t, a.ep.Shutdown(ctx))
	for _, err := range []error{
		a.ep.Memory(a.peer, at).Write(ctx, nil), a.ep.Memory(a.peer, at).Read(ctx, nil), efa.NewCell[int8](a.ep.Memory(a.peer, at)).Add(ctx, int8(1)),
	} {
		require.ErrorIs(t, err, efa.ErrClosed)
	}
}

// TestRMADepth: writes, reads and atomics count against TxDepth.
func TestRMADepth(t *testing.T) {
	a, b := lab{ep: efa.EndpointConfig{TxDepth: 2}}.open(t)
	m := alloc(t, b, 100, remote)
	at := m.Remote()
	all := []efa.Request{
		&efa.WriteReq{To: a.peer, At: at, Buf: make([]byte, 9)}, &efa.ReadReq{From: a.peer, At: at, Buf: make([]byte, 9)},
		&efa.AtomicReq{To: a.peer, At: at, Op: amo.Read, Form: amo.Fetch, Result: make([]byte, 1)},
	}
	var sends []*efa.Op
	for range 2 { // nobody receives them yet
		sends = append(sends, start(t, a, &efa.SendReq{To: a.peer, Level: efa.Delivered}))
	}
	for _, r := range all {
		require.ErrorIs(t, second(a.ep.Start(r)), efa.ErrAgain)
		require.ErrorIs(t, second(post(a.ep, r)), efa.ErrAgain)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.ep.Memory(a.peer, at).Write(ctx, nil), context.DeadlineExceeded)
	require.ErrorIs(t, a.ep.Memory(a.peer, at).Read(ctx, nil), context.DeadlineExceeded)
	for _, op := range sends {
		require.NoError(t, second(b.ep.Recv(testContext(t), nil)))
		done(t, op)
	}
	for _, r := range all { // and give their places back
		done(t, start(t, a, r))
	}
	require.ErrorIs(t, a.ep.Memory(a.peer, at).Read(ctx, nil), efa.ErrCanceled)
}

// TestRMAEndsWithPeer: operations that wait for an answer end when the other side
// does, or their own endpoint.
func TestRMAEndsWithPeer(t *testing.T) {
	const n = 8 << 20
	for name, dev := range someDevices(t) {
		t.Run(name, func(t *testing.T) {
			for _, own := range []bool{false, true} {
				a, b := lab{dev: dev}.open(t)
				// Each its own memory: what is written is not read at the same time.
				written, read, word := alloc(t, b, n, remote).Remote(), alloc(t, b, n, remote).Remote(), alloc(t, b, 8, remote).Remote()
				var ops []*efa.Op
				for range 2 {
					for _, r := range []efa.Request{
						&efa.WriteReq{To: a.peer, At: written, Buf: make([]byte, n), Level: efa.Delivered},
						&efa.ReadReq{From: a.peer, At: read, Buf: make([]byte, n)},
						&efa.AtomicReq{To: a.peer, At: word, Op: amo.Read, Form: amo.Fetch, Result: make([]byte, 1)},
					} {
						ops = append(ops, start(t, a, r))
					}
				}
				if own {
					require.NoError(t, a.ep.Close())
				} else {
					require.NoError(t, b.ep.Close())
				}
				for _, op := range ops {
					if _, err := op.Wait(testContext(t)); err != nil {
						require.True(t, isAny(err, efa.ErrClosed, efa.ErrPeerFailed), "%v", err)
						require.NotErrorIs(t, err, context.DeadlineExceeded)
					}
				}
			}
		})
	}
}

// TestRMACancel: operations that are canceled at any moment end with that, or had
// ended; nothing touches their buffers afterwards, and the endpoints go on.
func TestRMACancel(t *testing.T) {
	const n = 1 << 20
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		written, read, word := alloc(t, b, n, remote), alloc(t, b, n, remote), alloc(t, b, 8, remote)
		for i := range less(40) {
			buf := make([]byte, n)
			r := []efa.Request{
				&efa.WriteReq{To: a.peer, At: written.Remote(), Buf: buf, Level: efa.Level(i % 3)},
				&efa.ReadReq{From: a.peer, At: read.Remote(), Buf: buf},
				&efa.AtomicReq{To: a.peer, At: word.Remote(), Op: amo.Read, Form: amo.Fetch, Result: buf[:8]},
			}[i%3]
			op := start(t, a, r)
			for range i {
				require.NoError(t, second(a.ep.Stats(testContext(t)))) // lets it come some way
			}
			op.Cancel()
			if _, err := op.Wait(testContext(t)); err != nil {
				require.ErrorIs(t, err, efa.ErrCanceled)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
			}
			clear(buf)
			marker(t, a, b)
			require.Equal(t, make([]byte, n), buf)
		}
		ctx, cancel := context.WithCancelCause(testContext(t))
		cancel(errEnough)
		require.ErrorIs(t, a.ep.Memory(a.peer, written.Remote()).Write(ctx, nil), errEnough)
		require.ErrorIs(t, a.ep.Memory(a.peer, read.Remote()).Read(ctx, nil), errEnough)
		require.ErrorIs(t, second(b.ep.Peek(ctx)), errEnough)
	})
}

var errEnough = errors.New("enough")

// TestUnequalDevices: what only one side's device can do is done by packets.
func TestUnequalDevices(t *testing.T) {
	for name, dev := range someDevices(t) {
		for other, dev2 := range devices {
			t.Run(name+" to "+other, func(t *testing.T) {
				a, b := lab{dev: dev, other: &dev2}.open(t)
				ctx := testContext(t)
				there, src := alloc(t, b, 1<<20, remote), alloc(t, a, 1<<20, 0).Bytes()
				for _, n := range []int{10, 70_000, 1 << 20} {
					clear(there.Bytes())
					copy(src, pattern(n))
					require.NoError(t, a.ep.Memory(a.peer, there.Remote()).Write(ctx, src[:n], efa.Data(5)))
					require.EqualValues(t, 5, next(t, b).Data)
					require.True(t, bytes.Equal(pattern(n), there.Bytes()[:n]))
					clear(src)
					require.NoError(t, a.ep.Memory(a.peer, there.Remote()).Read(ctx, src[:n]))
					require.True(t, bytes.Equal(pattern(n), src[:n]))
					clear(there.Bytes())
					op := start(t, b, &efa.RecvReq{Buf: there.Bytes()})
					require.NoError(t, a.ep.Send(ctx, a.peer, src[:n]))
					require.Equal(t, n, done(t, op).N)
					require.True(t, bytes.Equal(pattern(n), there.Bytes()[:n]))
				}
			})
		}
	}
}

// TestEras: with an endpoint that talks as one of each release everything works that
// it has words for, and the rest is an error.
func TestEras(t *testing.T) {
	for i := range era.All {
		old := &era.All[i]
		t.Run(old.Name, func(t *testing.T) {
			dev := sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true}
			f := newFabric(t, sim.Config{InOrder: true})
			mk := func(name string) *side {
				d, err := f.OpenDevice(dev)
				require.NoError(t, err)
				dom := domainOn(t, d, efa.DomainConfig{})
				q := newQueue(t, dom, 0)
				return newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q, SendQueue: q, Protocol: ofEra(name, efa.ProtocolConfig{
					PeerTimeout: 20 * time.Second, ProbeAfter: 50 * time.Millisecond,
				})})
			}
			ours, theirs := mk(""), mk(old.Name)
			introduce(t, ours, theirs)
			ctx := testContext(t)
			for _, x := range [][2]*side{{ours, theirs}, {theirs, ours}} {
				a, b := x[0], x[1]
				there, src := alloc(t, b, 2<<20, remote|efa.AccessRecv), alloc(t, a, 2<<20, 0).Bytes()
				for _, n := range []int{0, 100, 20_000, 100_000, 2 << 20} {
					what := n
					clear(there.Bytes())
					op := start(t, b, &efa.RecvReq{Buf: there.Bytes()})
					require.NoError(t, a.ep.Send(ctx, a.peer, src[:n], efa.Data(9)), what)
					m := done(t, op)
					require.Equal(t, []any{n, uint64(9)}, []any{m.N, m.Data})
					require.True(t, bytes.Equal(src[:n], there.Bytes()[:n]), what)
					clear(there.Bytes())
					require.NoError(t, a.ep.Memory(a.peer, there.Remote()).Write(ctx, src[:n], efa.Data(8)), what)
					require.EqualValues(t, 8, next(t, b).Data, what)
					require.True(t, bytes.Equal(src[:n], there.Bytes()[:n]), what)
					got := make([]byte, n)
					require.NoError(t, a.ep.Memory(a.peer, there.Remote()).Read(ctx, got), what)
					require.True(t, bytes.Equal(src[:n], got), what)
				}
				was, err := efa.NewCell[uint8](a.ep.Memory(a.peer, there.Remote())).FetchAdd(ctx, uint8(1))
				require.NoError(t, err)
				require.Equal(t, src[0], was)
				err = a.ep.Send(ctx, a.peer, nil, efa.Complete(efa.Delivered), efa.Inject)
				require.NoError(t, err, "inject is never delivery complete")
				require.NoError(t, second(b.ep.Recv(ctx, nil)))
			}
			dc := start(t, ours, &efa.SendReq{To: ours.peer, Level: efa.Delivered})
			if !old.Features.Has(1) { // delivery complete
				_, err := dc.Wait(ctx)
				require.ErrorIs(t, err, efa.ErrNotSupported)
				return
			}
			require.NoError(t, second(theirs.ep.Recv(ctx, nil)))
			done(t, dc)
		})
	}
}

// TestOldPeerRefuses: a peer that has no word for refusal leaves the requester to its
// PeerTimeout; the peer lives on.
func TestOldPeerRefuses(t *testing.T) {
	a, b := lab{ep: efa.EndpointConfig{Protocol: ofEra("1.18", efa.ProtocolConfig{PeerTimeout: 5 * time.Second, ProbeAfter: 50 * time.Millisecond})}}.open(t)
	ctx := testContext(t)
	m := alloc(t, b, 100, efa.AccessRemoteWrite)
	read := make(chan error, 1)
	go func() { read <- a.ep.Memory(a.peer, m.Remote()).Read(ctx, make([]byte, 8)) }()
	require.ErrorIs(t, second(efa.NewCell[int64](a.ep.Memory(a.peer, m.Remote())).Load(ctx)), efa.ErrTimedOut)
	require.ErrorIs(t, <-read, efa.ErrTimedOut)
	require.NoError(t, a.ep.Memory(a.peer, m.Remote()).Write(ctx, make([]byte, 8), efa.Complete(efa.Delivered)))
	marker(t, a, b)
}
