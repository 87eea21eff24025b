package efa_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestRemoteWrite: a write with data tells the target when the data is there, by
// whatever subprotocol; others do not.
func TestRemoteWrite(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		self, err := a.av.Insert(a.ep.Address())
		require.NoError(t, err)
		there, here := alloc(t, b, 1<<20, remote), alloc(t, a, 1<<20, remote)
		src := alloc(t, a, 1<<20, 0).Bytes()
		for _, n := range []int{0, 1, 9000, maxRDMA, maxRDMA + 1, 300_000} {
			for _, data := range []uint64{7, 1<<64 - 1} {
				for _, level := range []efa.Level{efa.Transmitted, efa.Delivered} {
					for to, x := range map[efa.Addr]struct {
						s *side
						m *efa.MemoryRegion
						h efa.Addr
					}{a.peer: {b, there, b.peer}, self: {a, here, self}} {
						clear(x.m.Bytes())
						copy(src, pattern(n))
						require.NoError(t, a.ep.Memory(to, x.m.Remote()).Write(ctx, src[:n]), "nobody is told of this one")
						require.NoError(t, a.ep.Memory(to, x.m.Remote().Slice(5, 1<<20)).Write(ctx, src[:n], efa.Data(data), efa.Complete(level)))
						c := next(t, x.s)
						require.NoError(t, c.Err)
						require.Equal(t, []any{efa.RemoteWrite, efa.OpID(0), uint64(0), n, data, true, x.h},
							[]any{c.Kind, c.ID, c.Token, c.N, c.Data, c.HasData, c.From}, "%d bytes", n)
						require.Equal(t, must(a.ep.Address().Raw(rawOf(a))), c.Raw())
						require.Equal(t, pattern(n), x.m.Bytes()[5:5+n])
					}
				}
			}
		}
	})
}

// rawOf is the kind of device that a side is on.
func rawOf(s *side) string {
	for _, scheme := range []string{"sim", "shm"} {
		if _, ok := s.ep.Address().Raw(scheme); ok {
			return scheme
		}
	}
	return ""
}

// TestRemoteWriteFullQueue: notifications that find no room wait for it, in order and
// among other completions, and none is lost.
func TestRemoteWriteFullQueue(t *testing.T) {
	const n = 500
	for name, dev := range someDevices(t) {
		t.Run(name, func(t *testing.T) {
			a, b := lab{dev: dev, depth: 4}.open(t)
			ctx := testContext(t)
			m := alloc(t, b, 64, remote)
			counter := b.dom.NewCounter()
			c := newEndpoint(t, b.dom, efa.EndpointConfig{RecvQueue: b.ep.RecvQueue(), RemoteWriteCounter: counter})
			to, err := a.av.Insert(c.ep.Address())
			require.NoError(t, err)
			// Two endpoints of one queue, which also has places for receives.
			for i := range uint64(3) {
				_, err := b.ep.PostRecv(&efa.RecvReq{Token: i, Tagged: true, Tag: i})
				require.NoError(t, err)
			}
			written := make(chan error, 1)
			go func() {
				written <- func() error {
					for i := range uint64(n) {
						for _, to := range []efa.Addr{a.peer, to} {
							if err := a.ep.Memory(to, m.Remote()).Write(ctx, pattern(8), efa.Data(i), efa.Complete(efa.Delivered)); err != nil {
								return err
							}
						}
					}
					return nil
				}()
			}()
			require.NoError(t, <-written, "nobody reads, and nobody is held up")
			marker(t, a, b)
			q := b.ep.RecvQueue()
			require.ErrorIs(t, second(b.ep.PostRecv(&efa.RecvReq{})), efa.ErrAgain)
			counts := [2]uint64{}
			var cs [3]efa.Completion
			for counts[0]+counts[1] < 2*n {
				k, err := q.Read(ctx, cs[:])
				require.NoError(t, err)
				for _, c := range cs[:k] {
					require.Equal(t, efa.RemoteWrite, c.Kind)
					if c.Data != counts[0] { // of the other then
						counts[0], counts[1] = counts[1], counts[0]
					}
					require.Equal(t, counts[0], c.Data)
					counts[0]++
				}
			}
			require.Equal(t, [2]uint64{n, n}, counts)
			require.NoError(t, counter.Wait(ctx, n))
			for i := range uint64(3) {
				require.NoError(t, a.ep.SendTag(ctx, a.peer, i, nil))
				c := next(t, b)
				require.NoError(t, c.Err)
				require.Equal(t, i, c.Token, "its place was kept")
			}
			require.Zero(t, q.TryRead(cs[:]))
		})
	}
}

// TestRemoteWriteUnusedRoom: a notification that found no room takes that which PostRecvs gives
// back because it has posted less than it could.
func TestRemoteWriteUnusedRoom(t *testing.T) {
	for name, dev := range someDevices(t) {
		t.Run(name, func(t *testing.T) {
			const depth = 4
			a, b := lab{dev: dev, depth: depth, mode: efa.ProgressCooperative}.open(t)
			m := alloc(t, b, 64, remote)
			b.ep.BreakOff(depth, func() {
				require.NoError(t, a.ep.Memory(a.peer, m.Remote()).Write(testContext(t), pattern(8), efa.Data(1), efa.Complete(efa.Delivered)))
				require.Eventually(t, b.ep.Behind, time.Minute, time.Millisecond)
			})
			c := next(t, b)
			require.NoError(t, c.Err)
			require.Equal(t, uint64(1), c.Data)
		})
	}
}

// TestRemoteWrittenEvent: without a receive queue it is an event.
func TestRemoteWrittenEvent(t *testing.T) {
	for name, dev := range someDevices(t) {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			mk := func() *side {
				d, err := f.OpenDevice(dev)
				require.NoError(t, err)
				dom := domainOn(t, d, efa.DomainConfig{})
				return newEndpoint(t, dom, efa.EndpointConfig{RemoteWriteCounter: dom.NewCounter()})
			}
			a, b := mk(), mk()
			introduce(t, a, b)
			ctx := testContext(t)
			m := alloc(t, b, 100, remote)
			for i := range uint64(10) {
				require.NoError(t, a.ep.Memory(a.peer, m.Remote()).Write(ctx, pattern(int(i)), efa.Data(100+i)))
				ev, err := b.ep.NextEvent(ctx)
				require.NoError(t, err)
				require.Equal(t, []any{efa.RemoteWritten, b.peer, int(i), 100 + i}, []any{ev.Kind, ev.Peer, ev.N, ev.Data})
				require.True(t, a.ep.Address().Equal(ev.Address))
			}
		})
	}
}

// TestRMACounters: each operation counts in its counter, once, by its outcome.
func TestRMACounters(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{InOrder: true}), efa.DomainConfig{})
	var cfg efa.EndpointConfig
	all := map[string]*efa.Counter{}
	for name, c := range map[string]**efa.Counter{
		"send": &cfg.SendCounter, "recv": &cfg.RecvCounter, "write": &cfg.WriteCounter, "read": &cfg.ReadCounter, "written": &cfg.RemoteWriteCounter,
	} {
		*c = dom.NewCounter()
		all[name] = *c
	}
	cfg.SendQueue = newQueue(t, dom, 64)
	s := newEndpoint(t, dom, cfg)
	self, err := s.av.Insert(s.ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)
	m := alloc(t, s, 64, remote)
	addr, key := m.Remote().Raw()
	none := efa.RawRemote(addr, 64, key^1)
	dc := efa.Complete(efa.Delivered)
	for _, at := range []efa.Remote{m.Remote(), none} {
		for _, err := range []error{
			s.ep.Memory(self, at).Write(ctx, pattern(9), dc),
			s.ep.Memory(self, at).Write(ctx, pattern(9), dc, efa.Data(1)),
			efa.NewCell[float64](s.ep.Memory(self, at)).Add(ctx, 1.0, dc),
			s.ep.Memory(self, at).Read(ctx, pattern(9)),
			second(efa.NewCell[int8](s.ep.Memory(self, at)).Load(ctx)),
			second(efa.NewCell[int32](s.ep.Memory(self, at)).CompareSwap(ctx, int32(1), 2)),
			second(s.ep.PostWrite(&efa.WriteReq{To: self, At: at, Quiet: true, Level: efa.Delivered, Buf: pattern(9)})),
			second(s.ep.PostRead(&efa.ReadReq{From: self, At: at, Quiet: true, Buf: pattern(9)})),
		} {
			if err != nil {
				require.ErrorIs(t, err, efa.ErrAccess)
			}
		}
	}
	require.NoError(t, s.ep.Memory(self, m.Remote()).Write(ctx, pattern(9), efa.Inject))
	for range 2 { // the failures of what was Quiet
		c := next(t, s)
		require.ErrorIs(t, c.Err, efa.ErrAccess)
	}
	require.NoError(t, s.ep.Shutdown(ctx))
	for name, want := range map[string][2]uint64{"send": {0, 0}, "recv": {0, 0}, "write": {5, 4}, "read": {4, 4}, "written": {1, 0}} {
		ok, failed := all[name].Value()
		require.Equal(t, want, [2]uint64{ok, failed}, name)
	}
}
