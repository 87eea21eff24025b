package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// network opens an endpoint on devices of one simulated fabric that have kinds of their own.
type network struct {
	t *testing.T
	f *sim.Fabric
}

func (n network) open(devs ...sim.DeviceConfig) *side {
	n.t.Helper()
	var ds []efa.Device
	for _, c := range devs {
		d, err := n.f.OpenDevice(c)
		require.NoError(n.t, err)
		ds = append(ds, d)
	}
	dev := ds[0]
	if len(ds) > 1 {
		var err error
		dev, err = efa.JoinDevices(ds...)
		require.NoError(n.t, err)
	}
	n.t.Cleanup(func() { require.NoError(n.t, dev.Close()) })
	return open(n.t, dev, efa.DomainConfig{})
}

func (n network) meet(from, to *side) efa.Addr {
	n.t.Helper()
	h, err := from.av.Insert(to.ep.Address())
	require.NoError(n.t, err)
	return h
}

// rdma is how many RDMA requests an endpoint has posted.
func rdma(t *testing.T, s *side) uint64 {
	t.Helper()
	stats, err := s.ep.Stats(testContext(t))
	require.NoError(t, err)
	return stats["Queue.RDMAPosted"]
}

// TestAbilitiesByPath: RDMA is each device's own. A card without it takes nothing from the
// paths beside it, and the other way round; each peer hears what is so on its path.
func TestAbilitiesByPath(t *testing.T) {
	net := network{t, newFabric(t, sim.Config{Seed: 9})}
	able := sim.DeviceConfig{Name: "near", Net: 1, RDMARead: true, RDMAWrite: true}
	poor := sim.DeviceConfig{Name: "far", Net: 2, LocalKeys: true}
	pick := sim.DeviceConfig{Name: "far", Net: 2, RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true}
	for _, c := range []struct {
		name      string
		far       sim.DeviceConfig
		near, off uint64 // RDMA requests of a write and a read
	}{
		{"the card has none", poor, 2, 0},
		{"the card has all, for registered memory", pick, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := net.open(able, c.far), net.open(able, c.far)
			x := net.open(c.far) // on the network alone
			ctx := testContext(t)
			for _, to := range []struct {
				peer *side
				want uint64
			}{{b, c.near}, {x, c.off}} {
				h := net.meet(a, to.peer)
				net.meet(to.peer, a)
				op := start(t, to.peer, &efa.SendReq{To: 0}) // a knows what it can from then on
				_, err := a.ep.Recv(ctx, nil)
				require.NoError(t, err)
				done(t, op)
				m := alloc(t, to.peer, 200_000, remote)
				local := alloc(t, a, 200_000, 0)
				before := rdma(t, a)
				mem := a.ep.Memory(h, m.Remote())
				require.NoError(t, mem.Write(ctx, local.Bytes(), efa.Complete(efa.Delivered)))
				got := alloc(t, a, 200_000, 0)
				clear(got.Bytes())
				require.NoError(t, mem.Read(ctx, got.Bytes()))
				require.Equal(t, pattern(200_000), got.Bytes())
				require.Equal(t, to.want, rdma(t, a)-before)
				require.NoError(t, mem.Write(ctx, local.Bytes()[:1000], efa.Data(5)))
				ev, err := to.peer.ep.NextEvent(ctx)
				require.NoError(t, err)
				require.Equal(t, efa.RemoteWritten, ev.Kind)
				require.EqualValues(t, 5, ev.Data)
				// Plain memory is good enough where the device takes it.
				before = rdma(t, a)
				require.NoError(t, mem.Read(ctx, make([]byte, 200_000)))
				plain := uint64(0)
				if to.peer == b {
					plain = 1
				}
				require.Equal(t, plain, rdma(t, a)-before)
			}
		})
	}
}
