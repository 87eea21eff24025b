package efa_test

import (
	"context"
	"encoding"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

var (
	_ encoding.BinaryMarshaler   = efa.Remote{}
	_ encoding.BinaryAppender    = efa.Remote{}
	_ encoding.BinaryUnmarshaler = (*efa.Remote)(nil)
)

func TestRemote(t *testing.T) {
	r := efa.Remote{Addr: 0x0102030405060708, Len: 1 << 20, Key: 0x8000000012345678}
	p, err := r.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, []byte{8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0x10, 0, 0, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0x80}, p)
	q, err := r.AppendBinary([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, append([]byte("x"), p...), q)
	var back efa.Remote
	require.NoError(t, back.UnmarshalBinary(p))
	require.Equal(t, r, back)
	for n := range 30 {
		if err := back.UnmarshalBinary(make([]byte, n)); n != 24 {
			require.ErrorIs(t, err, efa.ErrInvalid, n)
			require.Equal(t, r, back, "left alone")
		} else {
			require.Zero(t, back)
			back = r
		}
	}
	around, err := efa.Remote{Addr: ^uint64(0), Len: 2}.MarshalBinary()
	require.NoError(t, err)
	require.ErrorIs(t, back.UnmarshalBinary(around), efa.ErrInvalid)

	require.Equal(t, "1048576 bytes at 0x102030405060708", r.String())
	require.NotContains(t, fmt.Sprint(r), "5678", "the key is a secret")
	for _, x := range [][4]uint64{ // off, n, off and length of what is left
		{0, 5, 0, 5}, {5, 1 << 20, 5, 1<<20 - 5}, {1 << 20, 1, 1 << 20, 0}, {1<<20 + 1, 1, 1 << 20, 0}, {1 << 63, 1 << 63, 1 << 20, 0}, {3, ^uint64(0), 3, 1<<20 - 3},
	} {
		require.Equal(t, efa.Remote{Addr: r.Addr + x[2], Len: x[3], Key: r.Key}, r.Slice(x[0], x[1]))
	}
}

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
						require.EqualValues(t, n, m.Remote().Len)
						require.NotZero(t, m.Remote().Key&0xffffffff)
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
		keys[m.Remote().Key] = true
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
			require.NoError(t, a.ep.Read(ctx, a.peer, r, p[:r.Len]))
			require.Equal(t, pattern(10_000+i), p[:r.Len])
			require.NoError(t, a.ep.Write(ctx, a.peer, r, p[:r.Len], efa.Complete(efa.Delivered)))
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
