package efa_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
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
						if access == 0 {
							access = efa.AccessSend | efa.AccessRecv
						}
						require.Equal(t, access, m.Access())
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
