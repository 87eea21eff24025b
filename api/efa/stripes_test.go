package efa_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

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
