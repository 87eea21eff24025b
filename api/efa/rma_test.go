package efa_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/wire"
)

// TestWriteAndRead moves data of every size both ways, from and to registered and
// plain memory, and to an endpoint itself.
func TestWriteAndRead(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		self, err := a.av.Insert(a.ep.Address())
		require.NoError(t, err)
		const most = 1 << 20
		there, here, src := alloc(t, b, most+64, remote), alloc(t, a, most+64, remote), alloc(t, a, most, 0)
		for _, n := range []int{0, 1, 4000, 8704, 8705, 65535, 65536, 300_000, most} {
			for _, local := range [][]byte{src.Bytes()[:n], make([]byte, n)} {
				for to, at := range map[efa.Addr]*efa.MemoryRegion{a.peer: there, self: here} {
					what := fmt.Sprintf("%d bytes to %d", n, to)
					clear(at.Bytes())
					copy(local, pattern(n))
					part := at.Remote().Slice(33, uint64(n))
					require.NoError(t, a.ep.Memory(to, part).Write(ctx, local, efa.Complete(efa.Delivered)), what)
					require.True(t, bytes.Equal(pattern(n), at.Bytes()[33:33+n]), what)
					require.Equal(t, make([]byte, 33), at.Bytes()[:33], "before "+what)
					require.Equal(t, make([]byte, 31), at.Bytes()[33+n:64+n], "behind "+what)
					clear(local)
					require.NoError(t, a.ep.Memory(to, part).Read(ctx, local), what)
					require.True(t, bytes.Equal(pattern(n), local), what)
				}
			}
		}
		var cs [1]efa.Completion
		require.Zero(t, b.ep.RecvQueue().TryRead(cs[:]), "the target hears nothing")
	})
}

// TestPostedWritesAndReads: pieces, tokens, kinds and lengths in completions.
func TestPostedWritesAndReads(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		there := alloc(t, b, 1<<20, remote)
		for _, n := range []int{0, 10, 9000, 200_000} {
			clear(there.Bytes())
			p := pattern(n)
			id, err := a.ep.PostWrite(&efa.WriteReq{
				To: a.peer, At: there.Remote(), Bufs: [][]byte{p[:n/3], nil, p[n/3:]}, Level: efa.Delivered, Token: uint64(n),
			})
			require.NoError(t, err)
			c := next(t, a)
			require.NoError(t, c.Err)
			require.Equal(t, []any{efa.Wrote, id, uint64(n), n, a.peer}, []any{c.Kind, c.ID, c.Token, c.N, c.From})
			require.True(t, bytes.Equal(p, there.Bytes()[:n]))

			x, y := make([]byte, n/2), make([]byte, n-n/2)
			id, err = a.ep.PostRead(&efa.ReadReq{From: a.peer, At: there.Remote(), Bufs: [][]byte{x, nil, y}, Token: 5})
			require.NoError(t, err)
			c = next(t, a)
			require.NoError(t, c.Err)
			require.Equal(t, []any{efa.Fetched, id, uint64(5), n, a.peer}, []any{c.Kind, c.ID, c.Token, c.N, c.From})
			require.True(t, bytes.Equal(p, append(x, y...)))
		}
		require.Equal(t, "wrote fetched updated remote write Kind(77)",
			fmt.Sprint(efa.Wrote, " ", efa.Fetched, " ", efa.Updated, " ", efa.RemoteWrite, " ", efa.Kind(77)))
	})
}

// TestProtocols: on both sides of each switch point the subprotocol is what it
// should be.
func TestProtocols(t *testing.T) {
	const (
		mtu       = sim.DefaultMTU
		eager     = mtu - wire.EagerRTWLen - wire.RMAIOVLen - wire.ConnIDHdrLen
		dcEager   = mtu - wire.DCEagerRTWLen - wire.RMAIOVLen - wire.ConnIDHdrLen
		shortRead = mtu - wire.READRSPLen
	)
	type row struct {
		size  int
		proto string
	}
	for name, x := range map[string]struct {
		dev         sim.DeviceConfig
		ep          efa.ProtocolConfig
		level       efa.Level
		plain       bool // memory that is not registered
		write, read []row
	}{
		"no RDMA": {
			write: []row{{0, "eager write"}, {eager - 1, "eager write"}, {eager, "eager write"}, {eager + 1, "long-CTS write"}, {1 << 21, "long-CTS write"}},
			read:  []row{{0, "short read"}, {shortRead - 2, "short read"}, {shortRead - 1, "short read"}, {shortRead, "long-CTS read"}, {1 << 21, "long-CTS read"}},
		},
		"no RDMA, delivered": {
			level: efa.Delivered,
			write: []row{{0, "DC eager write"}, {dcEager, "DC eager write"}, {dcEager + 1, "DC long-CTS write"}},
		},
		"reads": {
			dev:   sim.DeviceConfig{RDMARead: true, LocalKeys: true},
			write: []row{{eager, "eager write"}, {65535, "long-CTS write"}, {65536, "long-read write"}, {65537, "long-read write"}},
			read:  []row{{0, "short read"}, {1, "direct read"}, {1 << 21, "direct read"}},
		},
		"reads, own switch point": {
			dev:   sim.DeviceConfig{RDMARead: true},
			ep:    efa.ProtocolConfig{MinReadWrite: 1000, ReadSegment: 333},
			write: []row{{999, "eager write"}, {1000, "long-read write"}, {1001, "long-read write"}},
			read:  []row{{1000, "direct read"}},
		},
		"reads, device's switch point": {
			dev:   sim.DeviceConfig{RDMARead: true, MinReadWrite: 2000},
			level: efa.Delivered,
			write: []row{{1999, "DC eager write"}, {2000, "long-read write"}},
		},
		"reads, plain memory": {
			dev: sim.DeviceConfig{RDMARead: true, LocalKeys: true}, plain: true,
			write: []row{{1 << 20, "long-CTS write"}}, read: []row{{100, "short read"}, {1 << 20, "long-CTS read"}},
		},
		"reads, plain memory without keys": {
			dev: sim.DeviceConfig{RDMARead: true}, plain: true,
			write: []row{{1 << 20, "long-CTS write"}}, read: []row{{1 << 20, "direct read"}},
		},
		"reads, none wanted": {
			dev: sim.DeviceConfig{RDMARead: true}, ep: efa.ProtocolConfig{MinReadWrite: -1},
			write: []row{{1 << 20, "long-CTS write"}}, read: []row{{1 << 20, "direct read"}},
		},
		"RDMA, none wanted": {
			dev: sim.DeviceConfig{RDMARead: true, RDMAWrite: true}, ep: efa.ProtocolConfig{NoRDMARead: true, NoRDMAWrite: true},
			write: []row{{100, "eager write"}, {1 << 20, "long-CTS write"}}, read: []row{{100, "short read"}, {1 << 20, "long-CTS read"}},
		},
		"writes": {
			dev:   sim.DeviceConfig{RDMAWrite: true, LocalKeys: true, MaxRDMA: 4096},
			write: []row{{0, "eager write"}, {1, "direct write"}, {4096, "direct write"}, {4097, "direct write"}, {1 << 20, "direct write"}},
			read:  []row{{100, "short read"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := lab{dev: x.dev, ep: efa.EndpointConfig{Protocol: x.ep}}.open(t)
			there := alloc(t, b, 1<<21, remote)
			here := alloc(t, a, 1<<21, 0).Bytes()
			if x.plain {
				here = pattern(1 << 21)
			}
			for _, w := range x.write {
				clear(there.Bytes())
				copy(here, pattern(w.size))
				c := done(t, start(t, a, &efa.WriteReq{To: a.peer, At: there.Remote(), Buf: here[:w.size], Level: x.level}))
				require.Equal(t, w.proto, c.Protocol.String(), "write of %d", w.size)
				require.Equal(t, w.size, c.N)
				if x.level == 0 {
					marker(t, a, b)
				}
				require.True(t, bytes.Equal(pattern(w.size), there.Bytes()[:w.size]))
			}
			copy(there.Bytes(), pattern(1<<21))
			for _, r := range x.read {
				clear(here)
				c := done(t, start(t, a, &efa.ReadReq{From: a.peer, At: there.Remote(), Buf: here[:r.size]}))
				require.Equal(t, r.proto, c.Protocol.String(), "read of %d", r.size)
				require.True(t, bytes.Equal(pattern(r.size), here[:r.size]))
			}
		})
	}
}

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
				return newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q, SendQueue: q, Protocol: ofEra(t, name, efa.ProtocolConfig{
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
	testenv.Long(t, "seconds of silence have to pass")
	a, b := lab{ep: efa.EndpointConfig{Protocol: ofEra(t, "1.18", efa.ProtocolConfig{PeerTimeout: 5 * time.Second, ProbeAfter: 50 * time.Millisecond})}}.open(t)
	ctx := testContext(t)
	m := alloc(t, b, 100, efa.AccessRemoteWrite)
	read := make(chan error, 1)
	go func() { read <- a.ep.Memory(a.peer, m.Remote()).Read(ctx, make([]byte, 8)) }()
	require.ErrorIs(t, second(efa.NewCell[int64](a.ep.Memory(a.peer, m.Remote())).Load(ctx)), efa.ErrTimedOut)
	require.ErrorIs(t, <-read, efa.ErrTimedOut)
	require.NoError(t, a.ep.Memory(a.peer, m.Remote()).Write(ctx, make([]byte, 8), efa.Complete(efa.Delivered)))
	marker(t, a, b)
}

// TestRMAAllocations: operations of every subprotocol allocate nothing at either
// side, posted or blocking.
func TestRMAAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	both := sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true, MaxRDMA: 10_000}
	reads := sim.DeviceConfig{RDMARead: true, LocalKeys: true}
	for name, dev := range map[string]sim.DeviceConfig{"plain": {}, "reads": reads, "both": both} {
		t.Run(name, func(t *testing.T) {
			a, b := lab{dev: dev, mode: efa.ProgressManual, ep: efa.EndpointConfig{Protocol: efa.ProtocolConfig{MinRead: 70_000, RuntSize: 10_000}}}.open(t)
			there, here := alloc(t, b, 1<<20, remote|efa.AccessRecv), alloc(t, a, 1<<20, 0).Bytes()
			ctx, at := context.Background(), there.Remote()
			var cs [4]efa.Completion
			steady := func(what string, one func()) {
				t.Helper()
				for range 100 {
					one()
				}
				require.Less(t, fewestAllocs(100, one), 0.1, what)
			}
			finish := func(q *efa.Queue, n int) {
				for n > 0 {
					k, err := q.Read(ctx, cs[:n])
					require.NoError(t, err)
					for _, c := range cs[:k] {
						require.NoError(t, c.Err)
					}
					n -= k
				}
			}
			for _, n := range []int{8, 20_000, 100_000} {
				for level, level1 := range []string{"", " delivered"} {
					level, name := efa.Delivered*efa.Level(level), level1
					write := efa.WriteReq{To: a.peer, At: at, Buf: here[:n], Level: level, HasData: true, Data: 3}
					steady("posted write"+name, func() {
						_, err := a.ep.PostWrite(&write)
						require.NoError(t, err)
						finish(a.ep.SendQueue(), 1)
						finish(b.ep.RecvQueue(), 1)
					})
					send, recv := efa.SendReq{To: a.peer, Buf: here[:n], Level: level}, efa.RecvReq{Buf: there.Bytes()[:n]}
					steady("posted send"+name, func() {
						_, err := b.ep.PostRecv(&recv)
						require.NoError(t, err)
						_, err = a.ep.PostSend(&send)
						require.NoError(t, err)
						finish(a.ep.SendQueue(), 1)
						finish(b.ep.RecvQueue(), 1)
					})
				}
				read := efa.ReadReq{From: a.peer, At: at, Buf: here[:n]}
				steady("posted read", func() {
					_, err := a.ep.PostRead(&read)
					require.NoError(t, err)
					finish(a.ep.SendQueue(), 1)
				})
				steady("write", func() { require.NoError(t, a.ep.Memory(a.peer, at).Write(ctx, here[:n], efa.Complete(efa.Delivered))) })
				steady("read", func() { require.NoError(t, a.ep.Memory(a.peer, at).Read(ctx, here[:n])) })
			}
			steady("injected write", func() {
				require.NoError(t, a.ep.Memory(a.peer, at).Write(ctx, here[:100], efa.Inject, efa.Data(1)))
				finish(b.ep.RecvQueue(), 1)
			})
			var x, y [2]uint64
			steady("atomics", func() {
				require.NoError(t, efa.NewCell[float64](a.ep.Memory(a.peer, at)).Add(ctx, 1.5, efa.Complete(efa.Delivered)))
				require.NoError(t, efa.NewCell[int8](a.ep.Memory(a.peer, at)).Store(ctx, int8(1), efa.Inject))
				require.NoError(t, second(efa.NewCell[uint64](a.ep.Memory(a.peer, at)).FetchAdd(ctx, uint64(1))))
				require.NoError(t, second(efa.NewCell[complex128](a.ep.Memory(a.peer, at)).Load(ctx)))
				require.NoError(t, second(efa.NewCell[int32](a.ep.Memory(a.peer, at)).CompareSwap(ctx, int32(1), 2)))
				require.NoError(t, efa.NewCell[uint64](a.ep.Memory(a.peer, at)).Fetch(ctx, amo.Max, x[:], y[:]))
			})
			req := efa.AtomicReq{To: a.peer, At: at, Op: amo.Sum, Form: amo.Fetch}
			req.Operand, req.Type = efa.Elements(x[:])
			req.Result, _ = efa.Elements(y[:])
			steady("posted atomic", func() {
				_, err := a.ep.PostAtomic(&req)
				require.NoError(t, err)
				finish(a.ep.SendQueue(), 1)
			})
			steady("peek", func() {
				if _, err := b.ep.Peek(ctx); !errors.Is(err, efa.ErrNoMessage) {
					t.Error(err)
				}
			})
		})
	}
}

// listDevices are devices on which operations with lists take every way.
var listDevices = map[string]lab{
	"packets": {},
	"reads":   {dev: sim.DeviceConfig{RDMARead: true, LocalKeys: true}},
	"rdma":    {dev: sim.DeviceConfig{RDMARead: true, RDMAWrite: true, UnsolicitedWrite: true, MaxRDMA: 3000}},
	"keys":    {dev: sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true, MaxRDMA: 3000}},
	"shm":     {shm: true},
}

// cutAt is mem in count pieces of different lengths, some of them empty.
func cutAt(r *rand.Rand, mem []byte, count int) (pieces [][]byte) {
	for left := count; left > 1; left-- {
		n := min(len(mem), r.IntN(2*len(mem)/left+1))
		pieces, mem = append(pieces, mem[:n:n]), mem[n:]
	}
	return append(pieces, mem)
}

// TestLists: writes and reads between lists on both sides bring every byte to its place, on
// every device, with one outcome; data of a write comes once, after all of its bytes.
func TestLists(t *testing.T) {
	for name, l := range listDevices {
		t.Run(name, func(t *testing.T) {
			l.ep.Protocol = efa.ProtocolConfig{MinReadWrite: 40_000}
			a, b := l.open(t)
			ctx := testContext(t)
			there, here := alloc(t, b, 300_000, remote), alloc(t, a, 300_000, efa.AccessSend|efa.AccessRecv).Bytes()
			r := rand.New(rand.NewPCG(1, 2))
			for i, c := range []struct{ n, local, remote int }{
				{100, 3, 1}, {100, 1, 3}, {2000, 4, 4}, {2000, 5, 9}, {50_000, 2, 2}, {50_000, 9, 3}, {200_000, 40, 256}, {200_000, 1, 5}, {0, 3, 3},
			} {
				data := pattern(c.n + i)[i:]
				at, want := scattered(r, there, c.n, c.remote)
				clear(there.Bytes())
				from := cutAt(r, here[:c.n], c.local)
				copy(here, data)
				w := efa.WriteReq{To: a.peer, Ats: at, Bufs: from, HasData: true, Data: uint64(i)}
				if i%2 == 1 {
					w.Level = efa.Delivered
				}
				op := start(t, a, &w)
				got, err := b.ep.RecvQueue().Read(ctx, make([]efa.Completion, 1))
				require.NoError(t, err)
				require.Equal(t, 1, got)
				require.Equal(t, data, want(), "%+v", c) // all bytes are there when the data is
				x := done(t, op)
				require.Equal(t, c.n, x.N)
				clear(here)
				op = start(t, a, &efa.ReadReq{From: a.peer, Ats: at, Bufs: cutAt(r, here[:c.n], c.local)})
				require.Equal(t, c.n, done(t, op).N)
				require.Equal(t, data, here[:c.n:c.n], "%+v", c)
			}
		})
	}
}

// scattered is n bytes of a region in count pieces in another order than they lie in, and a
// look at them.
func scattered(r *rand.Rand, m *efa.MemoryRegion, n, count int) (at []efa.Remote, read func() []byte) {
	mem := m.Bytes()
	base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	pieces := cutAt(r, mem[:n], count)
	r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	for _, p := range pieces {
		off := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p))) - base)
		at = append(at, m.Remote().Slice(off, uint64(len(p))))
	}
	return at, func() []byte {
		b := make([]byte, 0, n)
		for _, p := range pieces {
			b = append(b, p...)
		}
		return b
	}
}

// TestListsRefused: what is wrong with a list is an error of the call, or of the operation if
// the peer finds it, which then leaves nothing in progress.
func TestListsRefused(t *testing.T) {
	for name, l := range listDevices {
		t.Run(name, func(t *testing.T) {
			a, b := l.open(t)
			there := alloc(t, b, 1000, remote)
			all := there.Remote()
			buf := make([]byte, 100)
			half := all.Slice(0, 50)
			many := make([][]byte, efa.IOVLimit+1)
			for _, c := range []struct {
				req efa.Request
				err error
			}{
				{&efa.WriteReq{To: a.peer, At: all, Ats: []efa.Remote{half, half}, Buf: buf}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, Ats: []efa.Remote{half}, Buf: buf}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, Ats: []efa.Remote{half, half, half}, Buf: buf}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, Ats: make([]efa.Remote, efa.RMAIOVLimit+1), Buf: buf}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, At: all, Bufs: many}, efa.ErrInvalid},
				{&efa.WriteReq{To: a.peer, At: all, Buf: buf, Bufs: [][]byte{buf}}, efa.ErrInvalid},
				{&efa.ReadReq{From: a.peer, Ats: []efa.Remote{half}, Buf: buf}, efa.ErrInvalid},
				{&efa.ReadReq{From: a.peer, At: all, Bufs: many}, efa.ErrInvalid},
				{&efa.RecvReq{Bufs: many}, efa.ErrInvalid},
				{&efa.SendReq{To: a.peer, Bufs: many}, efa.ErrInvalid},
				{&efa.SendReq{To: a.peer, Bufs: [][]byte{make([]byte, 4000), make([]byte, 4000)}, Inject: true}, efa.ErrMsgSize},
			} {
				_, err := a.ep.Start(c.req)
				require.ErrorIs(t, err, c.err, "%T", c.req)
			}
			require.Equal(t, []int{efa.IOVLimit, efa.RMAIOVLimit}, []int{a.dom.Limits().IOV, a.dom.Limits().RMAIOV})
			ctx := testContext(t)
			// The sixth piece is not the peer's.
			addr, key := all.Raw()
			var at []efa.Remote
			for i := range 6 {
				at = append(at, all.Slice(uint64(i)*10, 10))
			}
			at[5] = efa.RawRemote(addr+995, 10, key)
			op := start(t, a, &efa.ReadReq{From: a.peer, Ats: at, Buf: make([]byte, 60)})
			_, err := op.Wait(ctx)
			require.Error(t, err)
			op = start(t, a, &efa.WriteReq{To: a.peer, Ats: at, Buf: make([]byte, 60), Level: efa.Delivered, HasData: true})
			_, err = op.Wait(ctx)
			require.Error(t, err)
			at[5] = all.Slice(0, 10) // overlaps
			op = start(t, a, &efa.WriteReq{To: a.peer, Ats: at, Buf: make([]byte, 60), Level: efa.Delivered})
			require.Equal(t, 60, done(t, op).N)
		})
	}
}

// TestListAllocations: an operation with lists allocates nothing at either side.
func TestListAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, l := range listDevices {
		t.Run(name, func(t *testing.T) {
			l.mode = efa.ProgressManual
			a, b := l.open(t)
			ctx := context.Background()
			there, here := alloc(t, b, 1<<20, remote|efa.AccessRecv), alloc(t, a, 1<<20, efa.AccessSend|efa.AccessRecv)
			var cs [4]efa.Completion
			finish := func(q *efa.Queue) {
				n, err := q.Read(ctx, cs[:1])
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.NoError(t, cs[0].Err)
			}
			steady := func(what string, one func()) {
				t.Helper()
				for range 100 {
					one()
				}
				require.Less(t, fewestAllocs(50, one), 0.1, what)
			}
			for _, count := range []int{3, 40} {
				for _, size := range []int{64, 4096} {
					var at []efa.Remote
					var from, to [][]byte
					for i := range count {
						at = append(at, there.Remote().Slice(uint64((count-i)*8192), uint64(size)))
						from = append(from, here.Bytes()[i*8192:][:size])
						to = append(to, there.Bytes()[i*8192:][:size])
					}
					what := fmt.Sprintf("%d of %d bytes", count, size)
					w := efa.WriteReq{To: a.peer, Ats: at, Bufs: from, HasData: true}
					steady("write of "+what, func() {
						_, err := a.ep.PostWrite(&w)
						require.NoError(t, err)
						finish(a.ep.SendQueue())
						finish(b.ep.RecvQueue())
					})
					r := efa.ReadReq{From: a.peer, Ats: at, Bufs: from}
					steady("read of "+what, func() {
						_, err := a.ep.PostRead(&r)
						require.NoError(t, err)
						finish(a.ep.SendQueue())
					})
					send, recv := efa.SendReq{To: a.peer, Bufs: from}, efa.RecvReq{Bufs: to}
					steady("message of "+what, func() {
						_, err := b.ep.PostRecv(&recv)
						require.NoError(t, err)
						_, err = a.ep.PostSend(&send)
						require.NoError(t, err)
						finish(a.ep.SendQueue())
						finish(b.ep.RecvQueue())
					})
				}
			}
		})
	}
}

// meter is a device that counts the bytes of RDMA which it is asked for.
type meter struct {
	device.Device
	rdma, requests atomic.Int64
}

type meterQP struct {
	device.QP
	m *meter
}

func (m *meter) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := m.Device.OpenQP(c)
	return &meterQP{qp, m}, err
}

func (q *meterQP) PostSend(wr *device.SendWR) error {
	err := q.QP.PostSend(wr)
	if err == nil && wr.Kind != device.WRSend {
		q.m.rdma.Add(int64(wr.Len()))
		q.m.requests.Add(1)
	}
	return err
}

// cards opens an endpoint on so many cards of one network, which reach each other as EFA's do.
func cards(t *testing.T, f *sim.Fabric, n int, c sim.DeviceConfig) (*side, []*meter) {
	var ms []*meter
	var ds []efa.Device
	for range n {
		d, err := f.OpenDevice(c)
		require.NoError(t, err)
		m := &meter{Device: d}
		ms, ds = append(ms, m), append(ds, m)
	}
	d, err := efa.JoinDevices(ds...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return open(t, d, efa.DomainConfig{}), ms
}

// TestStripes: a large read or write of memory goes over as many cards as both hosts have,
// in pieces of one size, and ends when all have; a small one, one with data, one whose name
// is another's and one to a peer with one card go by the first. Messages keep their path.
func TestStripes(t *testing.T) {
	const n = 3<<20 + 12345
	for _, c := range []struct {
		ours, theirs int
		cfg          sim.DeviceConfig
	}{
		{2, 2, sim.DeviceConfig{RDMARead: true, RDMAWrite: true}},
		{3, 2, sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, NoWindows: true}},
		{2, 4, sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, MaxRDMA: 200_000}},
		{4, 4, sim.DeviceConfig{RDMARead: true, RDMAWrite: true}},
		{4, 1, sim.DeviceConfig{RDMARead: true, RDMAWrite: true}},
		{2, 2, sim.DeviceConfig{}},
	} {
		t.Run(fmt.Sprintf("%d to %d", c.ours, c.theirs), func(t *testing.T) {
			f := newFabric(t, sim.Config{Seed: 5})
			a, ms := cards(t, f, c.ours, c.cfg)
			b, _ := cards(t, f, c.theirs, c.cfg)
			introduce(t, a, b)
			ctx := testContext(t)
			op := start(t, b, &efa.SendReq{To: b.peer}) // so that a knows what it can
			_, err := a.ep.Recv(ctx, nil)
			require.NoError(t, err)
			done(t, op)
			target, local := alloc(t, b, n, remote), alloc(t, a, n, 0)
			mem := a.ep.Memory(a.peer, target.Remote())
			moved := func(what func()) (bytes []int64) {
				before := make([]int64, len(ms))
				for i, m := range ms {
					before[i] = m.rdma.Load()
				}
				what()
				for i, m := range ms {
					bytes = append(bytes, m.rdma.Load()-before[i])
				}
				return bytes
			}
			even := func(got []int64) {
				t.Helper()
				both := min(c.ours, c.theirs)
				if !c.cfg.RDMARead {
					require.Equal(t, make([]int64, c.ours), got)
					return
				}
				sum := int64(0)
				for i, x := range got {
					sum += x
					switch {
					case i >= both:
						require.Zero(t, x)
					case c.cfg.MaxRDMA == 0:
						require.InDelta(t, n/both, x, 8192*float64(both))
					default:
						require.InDelta(t, n/both, x, float64(c.cfg.MaxRDMA))
					}
				}
				require.EqualValues(t, n, sum)
			}
			clear(target.Bytes())
			even(moved(func() { require.NoError(t, mem.Write(ctx, local.Bytes(), efa.Complete(efa.Delivered))) }))
			require.True(t, bytes.Equal(pattern(n), target.Bytes()))
			clear(local.Bytes())
			even(moved(func() { require.NoError(t, mem.Read(ctx, local.Bytes())) }))
			require.True(t, bytes.Equal(pattern(n), local.Bytes()))

			rest := func(got []int64) {
				t.Helper()
				for _, x := range got[1:] {
					require.Zero(t, x)
				}
			}
			rest(moved(func() { require.NoError(t, mem.Read(ctx, local.Bytes()[:200_000])) }))
			rest(moved(func() { require.NoError(t, mem.Write(ctx, local.Bytes(), efa.Data(7))) }))
			first, key := target.Remote().Raw()
			raw := a.ep.Memory(a.peer, efa.RawRemote(first, n, key))
			rest(moved(func() { require.NoError(t, raw.Read(ctx, local.Bytes())) }))
			// A message is read by the first card, too.
			rest(moved(func() {
				op := start(t, b, &efa.SendReq{To: b.peer, Buf: target.Bytes()})
				_, err := a.ep.Recv(ctx, local.Bytes())
				require.NoError(t, err)
				done(t, op)
			}))
			require.True(t, bytes.Equal(pattern(n), local.Bytes()))
		})
	}
}

// TestStripeFails: a piece that is refused on one path fails the operation, once, and the
// others do no harm; what comes after goes on.
func TestStripeFails(t *testing.T) {
	const n = 1 << 20
	f := newFabric(t, sim.Config{Seed: 6})
	cfg := sim.DeviceConfig{RDMARead: true, RDMAWrite: true}
	a, _ := cards(t, f, 2, cfg)
	b, _ := cards(t, f, 2, cfg)
	introduce(t, a, b)
	ctx := testContext(t)
	op := start(t, b, &efa.SendReq{To: b.peer})
	_, err := a.ep.Recv(ctx, nil)
	require.NoError(t, err)
	done(t, op)
	target, local := alloc(t, b, n, remote), alloc(t, a, n, 0)
	clear(target.Bytes())
	// A name whose second key is another region's, which is too short for the second half.
	short := alloc(t, b, n/4, remote)
	whole, err := target.Remote().MarshalBinary()
	require.NoError(t, err)
	other, err := short.Remote().MarshalBinary()
	require.NoError(t, err)
	forged := append(bytes.Clone(whole[:len(whole)-8]), other[len(other)-8:]...)
	var at efa.Remote
	require.NoError(t, at.UnmarshalBinary(forged))
	require.Error(t, a.ep.Memory(a.peer, at).Write(ctx, local.Bytes()))
	require.Error(t, a.ep.Memory(a.peer, at).Read(ctx, local.Bytes()))
	require.NoError(t, a.ep.Memory(a.peer, target.Remote()).Write(ctx, local.Bytes()))
	require.True(t, bytes.Equal(pattern(n), target.Bytes()))
}
