package efa_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// closers are devices that tell of an orderly end.
var closers = map[string]func(t *testing.T) func() efa.Device{
	"sim": func(t *testing.T) func() efa.Device {
		f := newFabric(t, sim.Config{Seed: 9, ReportGone: true})
		return func() efa.Device { return newDevice(t, f) }
	},
	"shm": func(t *testing.T) func() efa.Device {
		dir := t.TempDir() + "/fabric"
		return func() efa.Device {
			d, err := shm.Open(shm.Config{Dir: dir})
			require.NoError(t, err)
			return d
		}
	},
	"tcp": func(t *testing.T) func() efa.Device {
		return func() efa.Device {
			d, err := efa.OpenDevice("tcp")
			require.NoError(t, err)
			return d
		}
	},
}

// unhurried leaves it to the device to tell of an end, however slow the machine.
var unhurried = efa.ProtocolConfig{ProbeAfter: time.Minute, PeerTimeout: 2 * time.Minute}

// TestPeerClosed: all that a peer has sent before Close is received, whatever its length,
// before the news; receives from it alone end with that, those from anybody stay, and
// another endpoint of that device is a new peer.
func TestPeerClosed(t *testing.T) {
	for name, devices := range closers {
		t.Run(name, func(t *testing.T) {
			open := devices(t)
			newSide := func() *side {
				dev := open()
				t.Cleanup(func() { require.NoError(t, dev.Close()) })
				dom := domainOn(t, dev, efa.DomainConfig{})
				q := newQueue(t, dom, 0)
				return newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q, Protocol: unhurried})
			}
			b := newSide()
			ctx := testContext(t)
			for round := range 3 {
				a := newSide()
				introduce(t, a, b)
				const messages = 20
				if round == 1 { // one from anybody, which stays
					_, err := b.ep.PostRecv(&efa.RecvReq{Tagged: true, Tag: 99, Buf: make([]byte, 8), Token: 99})
					require.NoError(t, err)
				}
				for i := range messages {
					require.NoError(t, a.ep.SendTag(ctx, a.peer, uint64(i), pattern(8+50*i*round)))
				}
				directed := start(t, b, &efa.RecvReq{From: b.peer, Directed: true, Tagged: true, Tag: 77, Buf: make([]byte, 8)})
				require.NoError(t, a.ep.Close())
				ev, err := b.ep.NextEvent(ctx)
				require.NoError(t, err)
				require.Equal(t, efa.PeerClosed, ev.Kind, "%v", ev.Err)
				require.Equal(t, b.peer, ev.Peer)
				require.ErrorIs(t, ev.Err, efa.ErrPeerClosed)
				for i := range messages {
					buf := make([]byte, 8+50*i*round)
					m, err := b.ep.RecvTag(ctx, efa.Match{Tag: uint64(i)}, buf, efa.From(b.peer))
					require.NoError(t, err, "message %d", i)
					require.Equal(t, len(buf), m.N)
					require.Equal(t, pattern(len(buf)), buf)
				}
				_, err = directed.Wait(ctx)
				require.ErrorIs(t, err, efa.ErrPeerClosed)
				require.ErrorIs(t, err, efa.ErrPeerFailed)
				err = b.ep.Send(ctx, b.peer, []byte("x"))
				require.ErrorIs(t, err, efa.ErrPeerClosed)
				_, err = b.ep.ClaimTag(ctx, efa.AnyTag, efa.Wait, efa.From(b.peer))
				require.ErrorIs(t, err, efa.ErrPeerClosed)
				require.NoError(t, b.av.Remove(ctx, b.peer))
			}
			a := newSide()
			introduce(t, a, b)
			require.NoError(t, a.ep.SendTag(ctx, a.peer, 99, []byte("stayed")))
			c := next(t, b)
			require.NoError(t, c.Err)
			require.EqualValues(t, 99, c.Token)
		})
	}
}

// closedEnv makes the child one that closes its endpoint, see closedChild.
const closedEnv = "EFACTOR_TEST_CHILD_CLOSED"

// closedLengths are what closedChild sends.
var closedLengths = []int{8, 8000, 200_000, 0}

// closedChild sends some messages and closes its endpoint.
func closedChild(dir string) error {
	ep, parent, err := childOf(dir, efa.DomainConfig{})
	if err != nil {
		return err
	}
	for _, n := range closedLengths {
		if err := ep.Send(context.Background(), parent, pattern(n)); err != nil {
			return err
		}
	}
	return ep.Close()
}

// TestPeerProcessClosed: another process closes its endpoint and ends; that is no death.
func TestPeerProcessClosed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the shm device needs Linux")
	}
	for _, place := range []string{"shm", "tcp"} {
		t.Run(place, func(t *testing.T) {
			dir := "tcp"
			if place == "shm" {
				dir = t.TempDir()
				require.NoError(t, os.Chmod(dir, 0o700))
			}
			dev, err := meet(dir)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, dev.Close()) })
			me := newEndpoint(t, domainOn(t, dev, efa.DomainConfig{}), efa.EndpointConfig{Protocol: unhurried})
			cmd, addr := startChild(t, dir, me.ep.Address(), closedEnv+"=1")
			peer, err := me.av.Insert(addr)
			require.NoError(t, err)
			ctx := testContext(t)
			buf := make([]byte, 1<<20)
			for _, n := range closedLengths {
				m, err := me.ep.Recv(ctx, buf, efa.From(peer))
				require.NoError(t, err)
				require.Equal(t, n, m.N)
			}
			_, err = me.ep.Recv(ctx, buf, efa.From(peer))
			require.ErrorIs(t, err, efa.ErrPeerClosed)
			require.NoError(t, cmd.Wait())
			ev, err := me.ep.NextEvent(ctx)
			require.NoError(t, err)
			if ev.Kind == efa.NewPeer { // it sent before its address was inserted
				ev, err = me.ep.NextEvent(ctx)
				require.NoError(t, err)
			}
			require.Equal(t, efa.PeerClosed, ev.Kind)
			require.Equal(t, peer, ev.Peer)
		})
	}
}

// TestRMAEvents: each access that the target carries out gives one event, and moves its
// counter, and no other.
func TestRMAEvents(t *testing.T) {
	for name, dev := range map[string]sim.DeviceConfig{"plain": {}, "reads": devices["reads"]} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			mk := func(events bool) *side {
				d, err := f.OpenDevice(dev)
				require.NoError(t, err)
				dom := domainOn(t, d, efa.DomainConfig{})
				return newEndpoint(t, dom, efa.EndpointConfig{
					RMAEvents: events, RemoteWriteCounter: dom.NewCounter(), RemoteReadCounter: dom.NewCounter(), SendQueue: newQueue(t, dom, 0),
				})
			}
			a, b := mk(false), mk(true)
			introduce(t, a, b)
			ctx := testContext(t)
			m := alloc(t, b, 1<<17, remote)
			counts := map[string]*efa.Counter{
				"writes": b.ep.Config().RemoteWriteCounter, "reads": b.ep.Config().RemoteReadCounter,
			}
			want := map[string]uint64{}
			mem := a.ep.Memory(a.peer, m.Remote())
			dc := efa.Complete(efa.Delivered)
			const write, read = efa.AccessRemoteWrite, efa.AccessRemoteRead
			for _, x := range []struct {
				name   string
				do     func() error
				access efa.Access
				n      int
			}{
				{"eager write", func() error { return mem.Write(ctx, pattern(9)) }, write, 9},
				{"write of nothing", func() error { return mem.Write(ctx, nil) }, write, 0},
				{"DC eager write", func() error { return mem.Write(ctx, pattern(10), dc) }, write, 10},
				{"long write", func() error { return mem.Write(ctx, pattern(100_000)) }, write, 100_000},
				{"DC long write", func() error { return mem.Write(ctx, pattern(100_000), dc) }, write, 100_000},
				{"add", func() error { return efa.NewCell[uint32](mem).Add(ctx, 1) }, write, 4},
				{"DC add", func() error { return efa.NewCell[uint64](mem).Add(ctx, 1, dc) }, write, 8},
				{"fetch-add", func() error { return second(efa.NewCell[uint64](mem).FetchAdd(ctx, 1)) }, read, 8},
				{"load", func() error { return second(efa.NewCell[uint16](mem).Load(ctx)) }, read, 2},
				{"swap", func() error { return second(efa.NewCell[uint32](mem).CompareSwap(ctx, 1, 2)) }, read, 4},
				{"read", func() error { return mem.Read(ctx, make([]byte, 100)) }, read, 100},
				{"long read", func() error { return mem.Read(ctx, make([]byte, 100_000)) }, read, 100_000},
			} {
				if dev.RDMARead && (x.name == "read" || x.name == "long read") {
					continue // by the device, of which nobody hears
				}
				require.NoError(t, x.do(), x.name)
				ev, err := b.ep.NextEvent(ctx)
				require.NoError(t, err)
				require.Equal(t, []any{efa.RemoteServed, b.peer, x.n, x.access}, []any{ev.Kind, ev.Peer, ev.N, ev.Access}, x.name)
				kind := map[efa.Access]string{write: "writes", read: "reads"}[x.access]
				want[kind]++
				for name, c := range counts {
					ok, failed := c.Value()
					require.Equal(t, [2]uint64{want[name], 0}, [2]uint64{ok, failed}, "%s after %s", name, x.name)
				}
			}
			require.NoError(t, mem.Write(ctx, pattern(9), efa.Data(1)))
			ev, err := b.ep.NextEvent(ctx)
			require.NoError(t, err)
			require.Equal(t, efa.RemoteWritten, ev.Kind, "told once")
			require.NoError(t, counts["writes"].Wait(ctx, want["writes"]+1))

			// An endpoint without RMAEvents has nothing but the counter of reads.
			back := b.ep.Memory(b.peer, alloc(t, a, 100, remote).Remote())
			require.NoError(t, back.Write(ctx, pattern(9), dc))
			require.NoError(t, efa.NewCell[uint64](back).Add(ctx, 1, dc))
			_, err = efa.NewCell[uint64](back).FetchAdd(ctx, 1)
			require.NoError(t, err)
			_, some := a.ep.TryEvent()
			require.False(t, some)
			ok, _ := a.ep.Config().RemoteWriteCounter.Value()
			require.Zero(t, ok)
			// The answer may be here before its sender knows that it has arrived.
			require.NoError(t, a.ep.Config().RemoteReadCounter.Wait(ctx, 1))
		})
	}
}

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
			a, b := lab{dev: dev, depth: depth, mode: efa.ProgressPinned}.open(t)
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
