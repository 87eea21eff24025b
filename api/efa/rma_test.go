package efa_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
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
