package efa_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

func TestAllocAndRegister(t *testing.T) {
	for name, dev := range devices {
		t.Run(name, func(t *testing.T) {
			a, _ := lab{dev: dev}.open(t)
			for _, n := range []int{1, 4096, 1<<20 + 1} {
				own := make([]byte, n)
				for _, get := range []func(efa.Access) (*efa.MemoryRegion, error){
					func(x efa.Access) (*efa.MemoryRegion, error) { return a.dom.Alloc(n, x) },
					func(x efa.Access) (*efa.MemoryRegion, error) { return a.dom.Register(own, x) },
				} {
					for access := range efa.Access(16) {
						m, err := get(access)
						require.NoError(t, err)
						require.Equal(t, make([]byte, n), m.Bytes())
						require.EqualValues(t, n, m.Remote().Len())
						_, key := m.Remote().Raw()
						require.NotZero(t, key&0xffffffff)
						require.NoError(t, m.Close())
						require.NoError(t, m.Close())
						require.Nil(t, m.Bytes())
					}
				}
			}
			for _, n := range []int{0, -1, 1 << 62} {
				require.ErrorIs(t, second(a.dom.Alloc(n, 0)), efa.ErrInvalid, "%d", n)
			}
			require.ErrorIs(t, second(a.dom.Register(nil, 0)), efa.ErrInvalid)
			require.ErrorIs(t, second(a.dom.Register(make([]byte, 5), remote<<1)), efa.ErrInvalid)
		})
	}
}

// TestRegionLimits: the device's limit is ErrNoMR, and a region keeps its domain
// open.
func TestRegionLimits(t *testing.T) {
	dev, err := newFabric(t, sim.Config{}).OpenDevice(sim.DeviceConfig{MaxRegions: 3})
	require.NoError(t, err)
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	var ms []*efa.MemoryRegion
	keys := map[uint64]bool{}
	for i := range 3 {
		m, err := dom.Register(make([]byte, 100), efa.Access(i))
		require.NoError(t, err)
		ms = append(ms, m)
		_, key := m.Remote().Raw()
		keys[key] = true
	}
	require.Len(t, keys, 3)
	require.ErrorIs(t, second(dom.Register(make([]byte, 100), 0)), efa.ErrNoMR)
	require.ErrorIs(t, second(dom.Alloc(100, 0)), efa.ErrNoMR)
	for _, m := range ms {
		require.ErrorIs(t, dom.Close(), efa.ErrBusy)
		require.ErrorContains(t, dom.Close(), "memory regions")
		require.NoError(t, m.Close())
	}
	require.NoError(t, dom.Close())
	require.NoError(t, fab.Close())
	require.ErrorIs(t, second(dom.Alloc(100, 0)), efa.ErrClosed)
}

// TestRegisteredMemoryStays: peers use it though the program has forgotten it.
func TestRegisteredMemoryStays(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		var ms []*efa.MemoryRegion
		for i := range 20 {
			m, err := b.dom.Register(pattern(10_000+i), remote)
			require.NoError(t, err)
			ms = append(ms, m)
		}
		var at []efa.Remote
		for _, m := range ms {
			at = append(at, m.Remote())
		}
		for range 3 {
			runtime.GC()
			_ = pattern(1 << 20) // what would take the place of memory that was freed
		}
		p := make([]byte, 10_020)
		for i, r := range at {
			require.NoError(t, a.ep.Memory(a.peer, r).Read(ctx, p[:r.Len()]))
			require.Equal(t, pattern(10_000+i), p[:r.Len()])
			require.NoError(t, a.ep.Memory(a.peer, r).Write(ctx, p[:r.Len()], efa.Complete(efa.Delivered)))
		}
		for _, m := range ms {
			require.NoError(t, m.Close())
		}
		// It is Go's as before.
		m, err := b.dom.Register(p, 0)
		require.NoError(t, err)
		require.NoError(t, m.Close())
		require.Equal(t, pattern(10_019), p[:10_019])
	})
}

// TestRegionCloseOnce: any number of goroutines may close a region that is in use;
// all return when it is closed.
func TestRegionCloseOnce(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		for range 10 {
			m, err := b.dom.Alloc(2<<20, remote)
			require.NoError(t, err)
			buf := make([]byte, 1<<20)
			ops := []*efa.Op{
				start(t, a, &efa.WriteReq{To: a.peer, At: m.Remote(), Buf: buf, Level: efa.Delivered}),
				start(t, a, &efa.ReadReq{From: a.peer, At: m.Remote().Slice(1<<20, 1<<20), Buf: make([]byte, 1<<20)}),
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if err := m.Close(); err != nil {
						t.Error(err)
					}
					if m.Bytes() != nil {
						t.Error("not closed")
					}
				})
			}
			within(t, "Close", all.Wait)
			for _, op := range ops { // before, or too late: one outcome
				_, err := op.Wait(testContext(t))
				if err != nil {
					require.NotErrorIs(t, err, context.DeadlineExceeded)
				}
			}
		}
		marker(t, a, b)
	})
}

// TestDMABufOfSoftware: software devices, and several as one, have no way to a dma-buf.
func TestDMABufOfSoftware(t *testing.T) {
	fab := newFabric(t, sim.Config{})
	joined, err := efa.JoinDevices(newDevice(t, fab), newDevice(t, fab))
	require.NoError(t, err)
	for _, d := range []efa.Device{newDevice(t, fab), joined} {
		dom := domainOn(t, d, efa.DomainConfig{})
		_, err := dom.RegisterDMABuf(0, 0, 4096, efa.AccessRemoteRead)
		require.ErrorIs(t, err, efa.ErrNotSupported)
		_, err = dom.RegisterDMABuf(-1, 0, 4096, efa.AccessRemoteRead)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
}

// TestRegionClosedInUse: a region that an operation uses is closed, at the side that
// owns the operation or at the other, at the beginning or in the middle. Close
// returns, each operation has its outcome, and both sides go on.
func TestRegionClosedInUse(t *testing.T) {
	const n = 4 << 20
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		packets := func(s *side) uint64 {
			st, err := s.ep.Stats(ctx)
			require.NoError(t, err)
			return st["PacketsRecv.CTSDATA"] + st["PacketsRecv.CTS"] + st["PacketsRecv.READRSP"]
		}
		region := func(s *side, here bool) *efa.MemoryRegion {
			if here {
				m, err := s.dom.Register(make([]byte, n), remote|efa.AccessSend|efa.AccessRecv)
				require.NoError(t, err)
				return m
			}
			m, err := s.dom.Alloc(n, remote)
			require.NoError(t, err)
			return m
		}
		for name, begin := range map[string]func(here, there *efa.MemoryRegion) []*efa.Op{
			"write": func(here, there *efa.MemoryRegion) []*efa.Op {
				return []*efa.Op{start(t, a, &efa.WriteReq{To: a.peer, At: there.Remote(), Buf: here.Bytes(), Level: efa.Delivered})}
			},
			"read": func(here, there *efa.MemoryRegion) []*efa.Op {
				return []*efa.Op{start(t, a, &efa.ReadReq{From: a.peer, At: there.Remote(), Buf: here.Bytes()})}
			},
			"message": func(here, there *efa.MemoryRegion) []*efa.Op {
				return []*efa.Op{
					start(t, b, &efa.RecvReq{Buf: there.Bytes(), Tagged: true}),
					start(t, a, &efa.SendReq{To: a.peer, Buf: here.Bytes(), Tagged: true}),
				}
			},
		} {
			for _, local := range []bool{true, false} {
				for _, middle := range []bool{true, false} {
					here, there := region(a, true), region(b, name == "message")
					before := packets(a) + packets(b)
					ops := begin(here, there)
					for middle && packets(a)+packets(b) < before+3 {
						select {
						case <-ops[0].Done(): // the devices do it alone
							middle = false
						default:
						}
					}
					first, second := here, there
					if !local {
						first, second = there, here
					}
					within(t, "Close", func() { require.NoError(t, first.Close()) })
					if name == "message" && !local {
						// The receive may have ended before the message came, which then waits.
						other := start(t, b, &efa.RecvReq{Buf: make([]byte, n), Tagged: true})
						_, _ = ops[1].Wait(ctx) // judged below
						other.Cancel()
						ops = append(ops, other)
					}
					for _, op := range ops {
						if _, err := op.Wait(ctx); err != nil {
							require.True(t, isAny(err, efa.ErrCanceled, efa.ErrAccess), "%s: %v", name, err)
							require.NotErrorIs(t, err, efa.ErrPeerFailed, name)
							require.NotErrorIs(t, err, efa.ErrTimedOut, name)
						}
					}
					require.NoError(t, second.Close())
					marker(t, a, b)
					marker(t, b, a)
				}
			}
		}
	})
}

// TestRegionClosedInSimulation: programs of a simulation, which all run on one
// goroutine, close a region that others use, twice at once.
func TestRegionClosedInSimulation(t *testing.T) {
	for seed := range uint64(40) {
		w, err := efatest.New(efatest.Config{Seed: seed, Fabric: sim.Config{Delay: 5000, Jitter: 5000}})
		require.NoError(t, err)
		mk := func() (*efa.Domain, *efa.AddressVector, *efa.Endpoint) {
			dev, err := w.Device(sim.DeviceConfig{RDMARead: seed%2 == 0, RDMAWrite: seed%3 == 0})
			require.NoError(t, err)
			dom := domainOnly(t, dev)
			av := dom.NewAddressVector()
			ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av})
			require.NoError(t, err)
			require.NoError(t, ep.Enable(context.Background()))
			return dom, av, ep
		}
		_, av, alice := mk()
		dom, _, bob := mk()
		m, err := dom.Alloc(1<<20, remote)
		require.NoError(t, err)
		to, err := av.Insert(bob.Address())
		require.NoError(t, err)
		begun, closed, ended := 0, 0, 0
		for i := range 4 {
			w.Go("alice", func(ctx context.Context) error {
				begun++
				var err error
				if buf := make([]byte, 1<<20); i%2 == 0 {
					err = alice.Memory(to, m.Remote()).Read(ctx, buf)
				} else {
					err = alice.Memory(to, m.Remote()).Write(ctx, buf, efa.Complete(efa.Delivered))
				}
				ended++
				if err != nil && !isAny(err, efa.ErrAccess, efa.ErrCanceled) {
					return err
				}
				return nil
			})
		}
		for range 2 {
			w.Go("bob", func(ctx context.Context) error {
				for i := uint64(0); i < 10*seed; i++ { // let them come some way
					if _, err := bob.Peek(ctx); !errors.Is(err, efa.ErrNoMessage) {
						return err
					}
				}
				err := m.Close()
				closed++
				return err
			})
		}
		require.NoError(t, w.Run(), "seed %d", seed)
		require.Equal(t, []int{4, 2, 4}, []int{begun, closed, ended})
		require.Nil(t, m.Bytes())
	}
}

func domainOnly(t *testing.T, dev efa.Device) *efa.Domain {
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	return dom
}

// TestExport: peers that know the key 7 use a part of a region by offsets, without having been
// told anything, as far as the part and its rights go.
func TestExport(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		region := alloc(t, b, 200_000, remote)
		given, err := region.Export(efa.Export{Key: 7, Off: 1000, Len: 150_000, Access: efa.AccessRemoteRead | efa.AccessRemoteWrite})
		require.NoError(t, err)
		require.EqualValues(t, 150_000, given.Len())
		at := efa.KeyRemote(7, 150_000)
		for _, n := range []int{0, 1, 8000, 9000, 150_000} {
			p, q := pattern(n), make([]byte, n)
			clear(region.Bytes())
			require.NoError(t, a.ep.Memory(a.peer, at).Write(ctx, p, efa.Complete(efa.Delivered)))
			require.Equal(t, p, region.Bytes()[1000:1000+n])
			require.NoError(t, a.ep.Memory(a.peer, at).Read(ctx, q))
			require.Equal(t, p, q)
		}
		cell := efa.NewCell[uint64](a.ep.Memory(a.peer, at.Slice(8, 8)))
		clear(region.Bytes())
		old, err := cell.FetchAdd(ctx, 5)
		require.NoError(t, err)
		require.Zero(t, old)
		require.EqualValues(t, 5, region.Bytes()[1008])

		_, err = region.Export(efa.Export{Key: 7, Access: efa.AccessRemoteRead})
		require.ErrorIs(t, err, efa.ErrNoKey, "the key is in use")
		part, err := region.Export(efa.Export{Off: 8, Len: 8, Access: efa.AccessRemoteRead})
		require.NoError(t, err, "a part that can be read alone, by a key that is drawn")
		require.NoError(t, a.ep.Memory(a.peer, part).Read(ctx, make([]byte, 8)))
		require.Error(t, a.ep.Memory(a.peer, part).Write(ctx, make([]byte, 8), efa.Complete(efa.Delivered)))
		require.Error(t, efa.NewCell[uint64](a.ep.Memory(a.peer, part)).Update(ctx, amo.Sum, []uint64{1}, efa.Complete(efa.Delivered)))

		require.NoError(t, region.Unexport(given))
		require.ErrorIs(t, region.Unexport(given), efa.ErrNoKey)
		require.ErrorIs(t, region.Unexport(region.Remote()), efa.ErrNoKey)
		require.Error(t, a.ep.Memory(a.peer, at).Read(ctx, make([]byte, 8)))
		_, err = region.Export(efa.Export{Key: 7, Access: efa.AccessRemoteRead})
		require.NoError(t, err)
	})
}

func TestExportRefused(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, _ *side) {
		region := alloc(t, a, 100, efa.AccessSend|efa.AccessRemoteRead)
		for _, x := range []efa.Export{
			{},
			{Access: efa.AccessSend},
			{Access: efa.AccessRemoteWrite},
			{Access: 1 << 7},
			{Access: efa.AccessRemoteRead, Key: efa.MaxKey + 1},
			{Access: efa.AccessRemoteRead, Off: -1},
			{Access: efa.AccessRemoteRead, Off: 100},
			{Access: efa.AccessRemoteRead, Off: 1, Len: 100},
			{Access: efa.AccessRemoteRead, Len: -1},
			{Access: efa.AccessRemoteRead, Off: 101},
			{Access: efa.AccessRemoteRead, Off: 1 << 62, Len: 1 << 62},
		} {
			_, err := region.Export(x)
			require.ErrorIs(t, err, efa.ErrInvalid, "%+v", x)
		}
		require.NoError(t, region.Close())
		_, err := region.Export(efa.Export{Access: efa.AccessRemoteRead})
		require.ErrorIs(t, err, efa.ErrClosed)
	})
}

// TestDirectReadOfStopped: a device that reads by itself needs nobody at the other side: memory of
// a process that is stopped is written and read as long as the peer counts as alive.
func TestDirectReadOfStopped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the shm device needs Linux")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	dom := domainOn(t, meetAt(t, dir), efa.DomainConfig{})
	me := newEndpoint(t, dom, efa.EndpointConfig{Protocol: efa.ProtocolConfig{MinReadWrite: 1}})
	cmd, addr := startChild(t, dir, me.ep.Address(), stoppedEnv+"=1")
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}()
	peer, err := me.av.Insert(addr)
	require.NoError(t, err)
	ctx := testContext(t)
	b := make([]byte, efa.MaxRemote)
	got, err := me.ep.Recv(ctx, b)
	require.NoError(t, err)
	var r efa.Remote
	require.NoError(t, r.UnmarshalBinary(b[:got.N]))
	p := make([]byte, r.Len())
	stamp(p, 1<<40)
	require.NoError(t, me.ep.Memory(peer, r).Write(ctx, p, efa.Complete(efa.Delivered)))

	stopProcess(t, cmd.Process)
	clear(p)
	c := done(t, start(t, me, &efa.ReadReq{From: peer, At: r, Buf: p}))
	require.Equal(t, "direct read", c.Protocol.String())
	require.Equal(t, -1, wrongAt(p, 1<<40))
	stamp(p, 2<<40)
	w := done(t, start(t, me, &efa.WriteReq{To: peer, At: r, Buf: p, Level: efa.Delivered}))
	require.Equal(t, "direct write", w.Protocol.String())
	clear(p)
	done(t, start(t, me, &efa.ReadReq{From: peer, At: r, Buf: p}))
	require.Equal(t, -1, wrongAt(p, 2<<40), "read what was written while it was stopped")
}

// rightsDevices are two devices each, on which the table of rights has one answer. Of the
// simulated ones some have no RDMA, so that software refuses, and some no windows.
func rightsDevices() map[string]func(t *testing.T) [2]efa.Device {
	m := map[string]func(t *testing.T) [2]efa.Device{
		"shm": func(t *testing.T) [2]efa.Device {
			dir := t.TempDir() + "/fabric"
			return [2]efa.Device{meetAt(t, dir), meetAt(t, dir)}
		},
		"tcp": func(t *testing.T) [2]efa.Device { return [2]efa.Device{meetAt(t, "tcp"), meetAt(t, "tcp")} },
	}
	eachSim := func(name string, dc sim.DeviceConfig) {
		m["sim "+name] = func(t *testing.T) (pair [2]efa.Device) {
			f := newFabric(t, sim.Config{InOrder: true})
			for i := range pair {
				d, err := f.OpenDevice(dc)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, d.Close()) })
				pair[i] = d
			}
			return pair
		}
	}
	for name, dc := range devices {
		eachSim(name, dc)
	}
	eachSim("as EFA", sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, NoWindows: true})
	m["beside a card"] = func(t *testing.T) (pair [2]efa.Device) { // the way of messages has windows
		var fabrics [2]*sim.Fabric
		for i := range fabrics {
			fabrics[i] = newFabric(t, sim.Config{InOrder: true})
		}
		for i := range pair {
			open := func(f *sim.Fabric, dc sim.DeviceConfig) efa.Device {
				d, err := f.OpenDevice(dc)
				require.NoError(t, err)
				return d
			}
			n := uint64(i)
			joined, err := efa.JoinDevices(
				open(fabrics[0], sim.DeviceConfig{RDMARead: true, RDMAWrite: true, GID: sim.IndexGID(10 + n)}),
				open(fabrics[1], sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, NoWindows: true, GID: sim.IndexGID(20 + n)}))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, joined.Close()) })
			pair[i] = joined
		}
		return pair
	}
	return m
}

func meetAt(t *testing.T, place string) efa.Device {
	t.Helper()
	d, err := meet(place)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// pairOn opens an endpoint on each of two devices.
func pairOn(t *testing.T, devs [2]efa.Device) (a, b *side) {
	t.Helper()
	mk := func(d efa.Device) *side {
		dom := domainOn(t, d, efa.DomainConfig{})
		q := newQueue(t, dom, 0)
		return newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
	}
	a, b = mk(devs[0]), mk(devs[1])
	introduce(t, a, b)
	return a, b
}

// TestRights: what a peer that has its key may do with memory depends on its Access alone,
// not on the device, nor on how the memory came to it, nor on what may come from it by
// itself.
func TestRights(t *testing.T) {
	for name, devs := range rightsDevices() {
		t.Run(name, func(t *testing.T) {
			a, b := pairOn(t, devs(t))
			for how, get := range map[string]func(efa.Access) (*efa.MemoryRegion, error){
				"alloc":    func(x efa.Access) (*efa.MemoryRegion, error) { return b.dom.Alloc(100_000, x) },
				"register": func(x efa.Access) (*efa.MemoryRegion, error) { return b.dom.Register(make([]byte, 100_000), x) },
			} {
				for access := range efa.Access(16) {
					if testenv.Short() && (int(access)+len(name)+len(how))%4 > 0 {
						continue // other devices have it
					}
					m, err := get(access)
					require.NoError(t, err)
					checkRights(t, a, b, fmt.Sprintf("%s, access %d", how, access), m, access)
					require.NoError(t, m.Close())
				}
			}
		})
	}
}

// checkRights tries all kinds of access to a's peer's memory.
func checkRights(t *testing.T, a, b *side, what string, m *efa.MemoryRegion, access efa.Access) {
	t.Helper()
	ctx := testContext(t)
	// Each with an endpoint of its own, since too many refusals are an attack.
	s := newEndpoint(t, a.dom, efa.EndpointConfig{})
	to, err := s.av.Insert(b.ep.Address())
	require.NoError(t, err)
	read, write := access&efa.AccessRemoteRead != 0, access&efa.AccessRemoteWrite != 0
	mem := s.ep.Memory(to, m.Remote())
	cell := efa.NewCell[int64](mem)
	secret := pattern(len(m.Bytes()))
	for name, x := range map[string]struct {
		may bool
		do  func(n int) error
	}{
		"read": {read, func(n int) error {
			p := make([]byte, n)
			err := mem.Read(ctx, p)
			if err != nil {
				require.Equal(t, make([]byte, n), p, "%s: refused bytes were read", what)
			} else {
				require.Equal(t, secret[:n], p)
			}
			return err
		}},
		"write":            {write, func(n int) error { return mem.Write(ctx, make([]byte, n), efa.Complete(efa.Delivered)) }},
		"load":             {read, func(int) error { return second(cell.Load(ctx)) }},
		"add":              {write, func(int) error { return cell.Add(ctx, 1, efa.Complete(efa.Delivered)) }},
		"fetch-add":        {read && write, func(int) error { return second(cell.FetchAdd(ctx, 1)) }},
		"swap":             {read && write, func(int) error { return second(cell.Swap(ctx, 1)) }},
		"compare-and-swap": {read && write, func(int) error { return second(cell.CompareSwap(ctx, 0x1f18110a03fcf5ee, 1)) }},
		"masked swap":      {read && write, func(int) error { return cell.Compare(ctx, amo.MaskedSwap, []int64{-1}, []int64{1}) }},
	} {
		for _, n := range []int{8, 20_000, 100_000} {
			if n > 8 && name != "read" && name != "write" {
				break
			}
			// Of what goes from one side to the other the race detector sees nothing.
			require.NoError(t, second(b.ep.Stats(ctx)))
			copy(m.Bytes(), secret)
			require.NoError(t, second(b.ep.Stats(ctx)))
			err := x.do(n)
			if x.may {
				require.NoError(t, err, "%s: %s of %d bytes", what, name, n)
				continue
			}
			require.ErrorIs(t, err, efa.ErrAccess, "%s: %s of %d bytes", what, name, n)
			require.Equal(t, secret, m.Bytes(), "%s: %s of %d bytes", what, name, n)
		}
	}
}

// readIOVs keeps what a tapped endpoint tells others to read.
type readIOVs struct{ seen chan wire.RMAIOV }

func (readIOVs) Now() clock.Time { return 0 }

func (s readIOVs) Packet(r tap.Record) {
	if !r.Out || r.Kind != device.WRSend {
		return
	}
	if pkt, _, _ := wire.Decode(r.Packet); pkt != nil {
		p, ok := pkt.(*wire.LongReadRTM)
		if !ok {
			return
		}
		select {
		case s.seen <- p.ReadIOV[0]:
		default:
		}
	}
}

// windows reports whether messages go by a device that has windows: the first of several.
func windows(d efa.Device) bool {
	if all := d.Devices(); all != nil {
		d = all[0]
	}
	return d.Info().Windows
}

// TestLongMessageLends: the key in a long message reaches the bytes of that message while it
// is under way. It reaches neither the rest of the region nor the bytes of a message that is
// complete, whatever the address.
func TestLongMessageLends(t *testing.T) {
	for name, devs := range rightsDevices() {
		t.Run(name, func(t *testing.T) {
			const size, off, n = 4 << 20, 1 << 20, 2 << 20
			ds := devs(t)
			if !ds[0].Info().RDMARead || !windows(ds[0]) {
				t.Skip("nothing is read there, or the device has no windows")
			}
			sink := readIOVs{make(chan wire.RMAIOV, 16)}
			ds[1] = tap.Wrap(ds[1], sink)
			a, b := pairOn(t, ds)
			ctx := testContext(t)
			marker(t, a, b)
			marker(t, b, a)
			knows := start(t, a, &efa.RecvReq{})
			require.NoError(t, b.ep.Send(ctx, b.peer, nil, efa.Complete(efa.Delivered)), "which b does once it has a's HANDSHAKE")
			done(t, knows)
			m := alloc(t, b, size, 0)
			send := start(t, b, &efa.SendReq{To: b.peer, Buf: m.Bytes()[off : off+n]})
			iov := <-sink.seen
			s := newEndpoint(t, a.dom, efa.EndpointConfig{})
			to, err := s.av.Insert(b.ep.Address())
			require.NoError(t, err)
			loot := alloc(t, a, 100, 0).Bytes() // in a region, so that it is the device that reads
			steal := func(by int64, n int) error {
				got := loot[:n]
				clear(got)
				err := s.ep.Memory(to, efa.RawRemote(iov.Addr+uint64(by), uint64(n), iov.Key)).Read(ctx, got)
				if err != nil {
					require.Equal(t, make([]byte, n), got)
				}
				return err
			}
			require.NoError(t, steal(0, 100), "the message is under way")
			for _, at := range []int64{-off, -1, n, n - 1} {
				require.ErrorIs(t, steal(at, 2), efa.ErrAccess, "%d bytes from its beginning", at)
			}
			_, key := m.Remote().Raw()
			require.NotEqual(t, key&^(3<<62), iov.Key, "that is the region's own key")
			dst := alloc(t, a, n, 0)
			c := done(t, start(t, a, &efa.RecvReq{Buf: dst.Bytes()}))
			require.Equal(t, n, c.N)
			require.Equal(t, m.Bytes()[off:off+n], dst.Bytes())
			require.Equal(t, "long-read", done(t, send).Protocol.String())
			require.ErrorIs(t, steal(0, 100), efa.ErrAccess, "the message is complete")
		})
	}
}

// TestKeyWithoutItsBits: a reader that leaves out what our side says in a key beside the
// device's number (a hostile one) is refused by a device with windows.
func TestKeyWithoutItsBits(t *testing.T) {
	for name, devs := range rightsDevices() {
		t.Run(name, func(t *testing.T) {
			ds := devs(t)
			if ds[0].Info().RDMARead && !windows(ds[0]) {
				t.Skip("the device has to allow it, as EFA does")
			}
			a, b := pairOn(t, ds)
			for _, access := range []efa.Access{0, efa.AccessSend, efa.AccessRecv, efa.AccessSend | efa.AccessRemoteWrite} {
				m := alloc(t, b, 10_000, access)
				addr, key := m.Remote().Raw()
				got := alloc(t, a, 10_000, 0).Bytes() // so that it is the device that reads
				clear(got)
				err := a.ep.Memory(a.peer, efa.RawRemote(addr, 10_000, key&^(3<<62))).Read(context.Background(), got)
				require.ErrorIs(t, err, efa.ErrAccess, "access %d", access)
				require.Equal(t, make([]byte, 10_000), got)
			}
		})
	}
}
