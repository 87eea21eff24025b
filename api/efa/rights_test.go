package efa_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

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
	var p wire.LongReadRTM
	if !r.Out || r.Kind != device.WRSend {
		return
	}
	if _, err := p.Parse(r.Packet); err == nil {
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
