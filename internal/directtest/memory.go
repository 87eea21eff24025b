package directtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

const both = efa.AccessRemoteRead | efa.AccessRemoteWrite

// region is memory that closes with the test.
func (s *side) region(n int, a efa.Access) *efa.MemoryRegion {
	s.t.Helper()
	m, err := s.ep.Domain().Alloc(n, a)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = m.Close() })
	return m
}

// rdma: reads and writes of the device, from and to memory of both kinds.
func rdma(t *testing.T, w *world) {
	a, b := w.pair()
	info := a.dev.Info()
	most := min(info.MaxRDMA, 200_000)
	far, near := b.region(200_000, both), a.region(200_000, 0)
	there := a.ep.Memory(a.peer, far.Remote())
	if !info.RDMARead {
		require.ErrorIs(t, there.Read(a.ctx, make([]byte, 8)), efa.ErrNotSupported)
	}
	if !info.RDMAWrite {
		require.ErrorIs(t, there.Write(a.ctx, make([]byte, 8)), efa.ErrNotSupported)
	}
	for i, n := range []int{0, 1, 100, 10_000, most} {
		for _, local := range [][]byte{near.Bytes()[:n], make([]byte, n)} {
			if info.RDMAWrite {
				copy(local, pattern(n, i))
				b.handled() // the race detector wants to know that the memory was given back
				require.NoError(t, there.Write(a.ctx, local, efa.Complete(efa.Delivered)))
				a.check(b) // this process sees what was written before a message
				require.Equal(t, pattern(n, i), far.Bytes()[:n])
			}
			if info.RDMARead {
				copy(far.Bytes(), pattern(n, i+9))
				clear(local)
				b.handled()
				op, err := a.ep.Start(&efa.ReadReq{From: a.peer, At: far.Remote(), Buf: local})
				require.NoError(t, err)
				c, err := op.Wait(a.ctx)
				require.NoError(t, err)
				require.Equal(t, "direct read", c.Protocol.String())
				require.Equal(t, n, c.N)
				require.Equal(t, pattern(n, i+9), local)
			}
		}
	}
	a.check(b)
}

// writeData: the other side learns of it, and no receive of its is used up by that.
func writeData(t *testing.T, w *world) {
	a, b := w.pair()
	if !a.dev.Info().RDMAWrite {
		t.Skip("the device does not write")
	}
	far := b.region(100, both)
	buf := make([]byte, 10)
	b.recv(buf, 1)
	for i := range 5 {
		b.handled()
		_, err := a.ep.PostWrite(&efa.WriteReq{
			To: a.peer, At: far.Remote(), Buf: pattern(50+i, i), HasData: true, Data: uint64(0xf0000000 + i), Token: 2,
		})
		require.NoError(t, err)
		c := b.ok(efa.RemoteWrite, 0)
		require.Equal(t, uint64(0xf0000000+i), c.Data)
		require.Equal(t, 50+i, c.N)
		require.Equal(t, b.peer, c.From)
		require.Equal(t, pattern(50+i, i), far.Bytes()[:50+i])
		require.Equal(t, "direct write", a.ok(efa.Wrote, 2).Protocol.String())
	}
	a.send([]byte("message"), 3)
	require.Equal(t, 7, b.ok(efa.Received, 1).N)
	a.ok(efa.Sent, 3)
}

// refusedRDMA: the device's verdict is the outcome.
func refusedRDMA(t *testing.T, w *world) {
	a, b := w.pair()
	info := a.dev.Info()
	readOnly, writeOnly := b.region(100, efa.AccessRemoteRead), b.region(100, efa.AccessRemoteWrite)
	word := make([]byte, 8)
	if info.RDMARead {
		addr, key := readOnly.Remote().Raw()
		require.Error(t, a.ep.Memory(a.peer, efa.RawRemote(addr+96, 8, key)).Read(a.ctx, word), "beyond the end")
		require.Error(t, a.ep.Memory(a.peer, efa.RawRemote(addr, 8, key^0x55)).Read(a.ctx, word), "a wrong key")
		require.Error(t, a.ep.Memory(a.peer, writeOnly.Remote()).Read(a.ctx, word), "not to be read")
		require.NoError(t, a.ep.Memory(a.peer, readOnly.Remote()).Read(a.ctx, word))
	}
	if info.RDMAWrite {
		require.Error(t, a.ep.Memory(a.peer, readOnly.Remote()).Write(a.ctx, word), "not to be written")
		require.NoError(t, a.ep.Memory(a.peer, writeOnly.Remote()).Write(a.ctx, word))
	}
	a.check(b)
}

// closedRegions: a receive ends with the region that its buffer lies in.
func closedRegions(t *testing.T, w *world) {
	a, b := w.pair()
	m := b.region(4096, 0)
	b.recv(m.Bytes()[:10], 1)
	require.NoError(t, m.Close())
	require.Error(t, b.next().Err)
	a.check(b)
}
