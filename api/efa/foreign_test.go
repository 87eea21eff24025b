//go:build linux

package efa_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/api/efa"
)

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// foreigner is a device whose Alloc gives memory that it reaches as another process's
// only; here it happens to be our own.
type foreigner struct{ efa.Device }

type foreignRegion struct {
	device.MR
	mem []byte
}

func (r foreignRegion) Bytes() []byte { return r.mem }

func (d foreigner) Alloc(n int, a device.Access) (device.MR, error) {
	mem := make([]byte, n)
	mr, err := d.Device.RegisterForeign(os.Getpid(), addressOf(mem), n, a)
	return foreignRegion{mr, mem}, err
}

// openHosts opens two endpoints on the device of shm, on hosts of their own.
func openHosts(t *testing.T, mode efa.Progress, wrap func(efa.Device) efa.Device) (a, b *side, devB efa.Device) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fabric")
	var sides []*side
	for i, host := range []string{"a", "b"} {
		d, err := shm.Open(shm.Config{Dir: dir, GID: shm.HostGID(host)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		devB = d
		if i > 0 && wrap != nil {
			d = wrap(d)
		}
		dom := domainOn(t, d, efa.DomainConfig{Progress: mode})
		q := newQueue(t, dom, 0)
		sides = append(sides, newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q}))
	}
	introduce(t, sides[0], sides[1])
	return sides[0], sides[1], devB
}

// TestForeignMemory: a peer's memory may be another process's. Its device has no bytes
// of it, and nobody here asks for them: messages are read from it, writes and reads go
// straight to it.
func TestForeignMemory(t *testing.T) {
	for _, mode := range some(t, modes) {
		t.Run(mode.String(), func(t *testing.T) {
			const size = 3 << 20
			ctx := testContext(t)
			a, b, _ := openHosts(t, mode, func(d efa.Device) efa.Device { return foreigner{d} })
			marker(t, a, b)
			marker(t, b, a)
			src, dst := alloc(t, b, size, remote|efa.AccessSend), alloc(t, a, size, 0)
			for _, to := range [][]byte{dst.Bytes(), make([]byte, size)} {
				clear(to)
				r := start(t, a, &efa.RecvReq{Buf: to})
				s := start(t, b, &efa.SendReq{To: b.peer, Buf: src.Bytes()})
				require.Equal(t, size, done(t, r).N)
				require.True(t, bytes.Equal(pattern(size), to))
				require.Equal(t, "long-read", done(t, s).Protocol.String())
			}
			clear(src.Bytes())
			w := start(t, a, &efa.WriteReq{To: a.peer, At: src.Remote().Slice(11, size-20), Buf: pattern(size)[:size-20], Level: efa.Delivered})
			require.Equal(t, "direct write", done(t, w).Protocol.String())
			require.True(t, bytes.Equal(pattern(size)[:size-20], src.Bytes()[11:size-9]))
			require.NoError(t, a.ep.Memory(a.peer, src.Remote().Slice(11, size-20)).Read(ctx, dst.Bytes()[:size-20]))
			require.True(t, bytes.Equal(pattern(size)[:size-20], dst.Bytes()[:size-20]))
		})
	}
}

// TestForeignRegion: the region need not be known to the endpoint at all, as that of an
// emulated device is not. When it is closed, requests are refused.
func TestForeignRegion(t *testing.T) {
	const size = 300_000
	ctx := testContext(t)
	a, _, devB := openHosts(t, efa.ProgressAuto, nil)
	mem := pattern(size)
	mr, err := devB.RegisterForeign(os.Getpid(), addressOf(mem), size, device.RemoteRead|device.RemoteWrite)
	require.NoError(t, err)
	require.Nil(t, mr.Bytes())
	at := efa.RawRemote(mr.Addr(), size, mr.RKey())
	got := make([]byte, size)
	require.NoError(t, a.ep.Memory(a.peer, at).Read(ctx, got))
	require.True(t, bytes.Equal(pattern(size), got))
	clear(got)
	require.NoError(t, a.ep.Memory(a.peer, at.Slice(5, 100_000)).Write(ctx, got[:100_000], efa.Complete(efa.Delivered)))
	require.Equal(t, pattern(size)[:5], mem[:5])
	require.Equal(t, make([]byte, 100_000), mem[5:100_005])
	require.True(t, bytes.Equal(pattern(size)[100_005:], mem[100_005:]))
	require.NoError(t, mr.Close())
	err = a.ep.Memory(a.peer, at).Read(ctx, got)
	require.Error(t, err)
	require.NotErrorIs(t, err, efa.ErrPeerFailed)
}

// TestHosts: a device may be opened as if it were on a host of that name.
func TestHosts(t *testing.T) {
	name := "shm:" + filepath.Join(t.TempDir(), "fabric")
	gids := map[string][16]byte{}
	var sides []*side
	for _, host := range []string{"", "?host=one", "?host=two", "?host=one"} {
		dev, err := efa.OpenDevice(name + host)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Close()) })
		gid := dev.Info().GID
		if old, ok := gids[host]; ok {
			require.EqualValues(t, old, gid)
		}
		gids[host] = gid
		sides = append(sides, open(t, dev, efa.DomainConfig{}))
	}
	require.NotEqual(t, gids["?host=one"], gids["?host=two"])
	require.NotEqual(t, gids["?host=one"], gids[""])
	for i, a := range sides {
		for j, b := range sides {
			if i == j {
				continue
			}
			introduce(t, a, b)
			op := start(t, a, &efa.SendReq{To: a.peer, Buf: []byte{byte(i), byte(j)}})
			buf := make([]byte, 2)
			m, err := b.ep.Recv(testContext(t), buf)
			require.NoError(t, err)
			require.Equal(t, b.peer, m.From, "from %d to %d", i, j)
			require.Equal(t, []byte{byte(i), byte(j)}, buf)
			done(t, op)
		}
	}
	for _, bad := range []string{name + "?host=", "sim?host=x", "sim?files", "tcp?files", "shm?host", "shm?", "shm?files=", name + "?plain", name + "??files", "efa?files", "tcp:here", "auto:", "?host="} {
		_, err := efa.OpenDevice(bad)
		require.ErrorIs(t, err, efa.ErrInvalid, bad)
	}
}
