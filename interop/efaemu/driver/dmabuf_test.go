//go:build linux

package driver_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/api/efa"
)

// newBuffer makes what stands for memory of a GPU: a dma-buf of udmabuf where the kernel has
// that, or else a memfd, which the emulator takes for one. It returns the bytes, too.
func newBuffer(t *testing.T, n int) (fd int, mem []byte) {
	memfd, err := unix.MemfdCreate("buffer", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(memfd, int64(n)))
	mem, err = unix.Mmap(memfd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(mem)) })
	return memfd, mem
}

// TestDMABuf: peers read and write memory of another device by RDMA; the descriptor is not
// needed for that any more.
func TestDMABuf(t *testing.T) {
	const size, off, n = 1 << 20, 4096 + 100, 500_000
	a, b := pairOf(t, named(t, "rdma-write", nil), efa.DomainConfig{}, efa.ProtocolConfig{})
	fd, mem := newBuffer(t, size)
	copy(mem, noise(size))
	region, err := b.dom.RegisterDMABuf(fd, off, n, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	require.NoError(t, err)
	other, err := b.dom.RegisterDMABuf(fd, 0, size, efa.AccessRemoteRead)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	require.Nil(t, region.Bytes())
	require.EqualValues(t, n, region.Remote().Len())
	was := a.stats()
	mine, err := a.dom.Alloc(n, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, mine.Close()) }()
	dst := mine.Bytes()
	require.NoError(t, a.ep.Memory(a.peer, region.Remote()).Read(timeout(t), dst))
	require.Equal(t, mem[off:off+n], dst)
	require.NoError(t, a.ep.Memory(a.peer, other.Remote()).Read(timeout(t), dst[:4096]))
	require.Equal(t, mem[:4096], dst[:4096])
	src := noise(n)
	require.NoError(t, a.ep.Memory(a.peer, region.Remote().Slice(1000, 200_000)).Write(timeout(t), src[:200_000]))
	require.Equal(t, src[:200_000], mem[off+1000:][:200_000])
	clear(src)
	require.NoError(t, a.ep.Memory(a.peer, region.Remote()).Read(timeout(t), src))
	require.Equal(t, mem[off:off+n], src)
	require.Zero(t, a.counts(was)("Queue.SendPosted"))
	require.ErrorIs(t, a.ep.Memory(a.peer, other.Remote()).Read(timeout(t), make([]byte, 100)), efa.ErrTimedOut,
		"a plain buffer that is too short to be registered; no word of a refusal goes to an EFA device")
	require.Error(t, a.ep.Memory(a.peer, other.Remote()).Write(timeout(t), src), "it is to be read alone")
	require.NoError(t, other.Close())
	require.NoError(t, region.Close())
	require.Error(t, a.ep.Memory(a.peer, region.Remote()).Read(timeout(t), dst), "it is closed")
}

// TestDMABufEmulated: a write of a peer whose card does not write is refused.
func TestDMABufEmulated(t *testing.T) {
	a, b := pairOf(t, named(t, "efa", nil), efa.DomainConfig{}, efa.ProtocolConfig{})
	fd, _ := newBuffer(t, 4096)
	defer unix.Close(fd)
	region, err := b.dom.RegisterDMABuf(fd, 0, 4096, efa.AccessRemoteWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, region.Close()) }()
	require.Error(t, a.ep.Memory(a.peer, region.Remote()).Write(timeout(t), make([]byte, 100), efa.Complete(efa.Delivered)))
	ev, err := b.ep.NextEvent(timeout(t))
	for err == nil && ev.Kind != efa.AccessRefused {
		ev, err = b.ep.NextEvent(timeout(t))
	}
	require.NoError(t, err)
}

// TestDMABufRefused: what is no dma-buf, too short, or asks for what a dma-buf cannot do.
func TestDMABufRefused(t *testing.T) {
	a, _ := pairOf(t, named(t, "rdma-write", nil), efa.DomainConfig{}, efa.ProtocolConfig{})
	fd, _ := newBuffer(t, 8192)
	defer unix.Close(fd)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _, _ = r.Close(), w.Close() }()
	const read = efa.AccessRemoteRead
	for _, c := range []struct {
		name   string
		fd     int
		off    uint64
		n      int
		access efa.Access
		want   error
	}{
		{"too short", fd, 4096, 4097, read, efa.ErrInvalid},
		{"a pipe", int(r.Fd()), 0, 4096, read, efa.ErrInvalid},
		{"no descriptor", 1 << 20, 0, 4096, read, efa.ErrInvalid},
		{"negative", -1, 0, 4096, read, efa.ErrInvalid},
		{"no bytes", fd, 0, 0, read, efa.ErrInvalid},
		{"no access", fd, 0, 4096, 0, efa.ErrInvalid},
		{"local access", fd, 0, 4096, read | efa.AccessSend, efa.ErrNotSupported},
		{"around the end", fd, ^uint64(0), 4096, read, efa.ErrInvalid},
	} {
		_, err := a.dom.RegisterDMABuf(c.fd, c.off, c.n, c.access)
		require.ErrorIs(t, err, c.want, c.name)
	}
}
