//go:build linux

package shm

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// A full file system is an error, not a signal later.
func TestRegionNoSpace(t *testing.T) {
	var st unix.Statfs_t
	dir := fabricDir(t)
	require.NoError(t, unix.Statfs(dir, &st))
	d, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	_, err = d.Alloc(int(st.Blocks)*int(st.Bsize)+1, 0)
	require.ErrorIs(t, err, device.ErrNoMemory)
	require.Empty(t, names(t, dir))
	require.NoError(t, d.Close())
}

// Garbage in a region's first page, before and after it was mapped: requests end
// well or not at all, and nothing is touched outside.
func TestRegionGarbage(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	c := newCouple(t, 5000, remoteAll)
	o := c.file(c.mr)
	page, err := unix.Mmap(int(o.Fd()), 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(page)) }()
	good := append([]byte{}, page...)
	local := make([]byte, 5000)
	const words = 3 * pairBytes
	refused := 0
	for i := range 3000 {
		if i%2 == 0 {
			c.devA().mappings.clear()
		}
		at := rng.IntN(words)
		if rng.IntN(2) == 0 {
			at = rng.IntN(int(unsafe.Sizeof(regionHeader{})))
		}
		for range 1 + rng.IntN(8) {
			page[at] = byte(rng.Uint32())
			at = (at + 1) % words
		}
		n := rng.IntN(len(local))
		wr := c.wr(device.WR(1+rng.IntN(2)), local[:n], rng.IntN(len(local)-n))
		switch st := statusOf(t, c.a, wr); st {
		case device.StatusOK:
		case device.StatusBadAddress:
			refused++
		default:
			t.Fatal(st)
		}
		copy(page, good)
	}
	require.Greater(t, refused, 500)
	c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	regionControlOf(page).leases.Store(1 << 40)
	require.NoError(t, c.mr.Close())
	require.Equal(t, uint64(1), c.devB().abandoned.Load())
}

// Files that have a region's name and are none.
func TestForeignRegions(t *testing.T) {
	c := newCouple(t, 100, remoteAll)
	wr := c.wr(device.WRRead, make([]byte, 1), 0)
	for key, lay := range map[uint64]func(path string) error{
		1: func(p string) error { return os.WriteFile(p, nil, 0o600) },
		2: func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) },
		3: func(p string) error { return os.WriteFile(p, make([]byte, 2*pageBytes), 0o600) },
		4: func(p string) error { return os.Mkdir(p, 0o700) },
		5: func(p string) error { return os.Symlink(regionName(c.mr.RKey()), p) },
		6: func(p string) error { return unix.Mkfifo(p, 0o600) },
		7: func(p string) error { return os.Link(filepath.Join(c.dir, regionName(c.mr.RKey())), p) },
	} {
		path := filepath.Join(c.dir, regionName(key))
		require.NoError(t, lay(path))
		wr.RKey = key
		st := statusOf(t, c.a, wr)
		require.True(t, st == device.StatusBadAddress || st == device.StatusQPInternal, "%d: %v", key, st)
	}
	require.Zero(t, c.devA().mappings.size())
	for _, name := range []string{"r", "r1", "r00000000", "r0000000x", "R00000001", "r000000001"} {
		require.False(t, isRegion(name), name)
	}
	// Regions whose lock is free are swept, other files stay.
	d, err := Open(Config{Dir: c.dir})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	left := names(t, c.dir)
	for key := uint64(1); key <= 3; key++ {
		require.NotContains(t, left, regionName(key))
	}
	require.Contains(t, left, regionName(4))
	require.Contains(t, left, regionName(c.mr.RKey()))
}
