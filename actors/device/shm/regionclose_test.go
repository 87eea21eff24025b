//go:build linux

package shm

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// A closed region is unreachable for those who have it mapped and for those who
// have not, its file and its memory are gone, and its addresses are blank.
func TestRegionClose(t *testing.T) {
	const size = 100_000
	c := newCouple(t, size, remoteAll)
	other, ah := mustAttach(t, c.dir, device.QPConfig{})
	c.ends(c.wr(device.WRWrite, []byte("before"), 0), device.StatusOK)
	f := c.file(c.mr)
	require.Greater(t, blocks(t, f), size/pageBytes)
	require.NoError(t, c.mr.Close())
	require.NotContains(t, names(t, c.dir), regionName(c.mr.RKey()))
	require.LessOrEqual(t, blocks(t, f), 1, "the first page, for those who have it mapped")
	require.Equal(t, 1, c.devA().views.size())
	for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
		wr := c.wr(kind, make([]byte, 6), 0)
		c.ends(wr, device.StatusBadAddress)
		wr.AH = ah
		require.Equal(t, device.StatusBadAddress, statusOf(t, other, wr))
	}
	require.Zero(t, c.devA().views.size())
	require.Equal(t, make([]byte, size), c.mr.Bytes())
	c.mr.Bytes()[0] = 1 // wrong, but no reason to crash
	require.ErrorIs(t, c.mr.Close(), device.ErrClosed)

	// The watcher drops what nobody asks for any more.
	c.mr = c.alloc(size, remoteAll)
	c.ends(c.wr(device.WRRead, make([]byte, 6), 0), device.StatusOK)
	c.devA().watch.look()
	require.Equal(t, 1, c.devA().views.size())
	require.NoError(t, c.mr.Close())
	c.devA().watch.look()
	require.Zero(t, c.devA().views.size())
}

// A device with regions cannot be closed.
func TestDeviceCloseWithRegion(t *testing.T) {
	d, err := Open(Config{Dir: fabricDir(t)})
	require.NoError(t, err)
	for _, get := range []func() (device.MR, error){
		func() (device.MR, error) { return d.Alloc(10, 0) },
		func() (device.MR, error) { return d.Register(make([]byte, 10), 0) },
	} {
		mr, err := get()
		require.NoError(t, err)
		require.Error(t, d.Close())
		require.NoError(t, mr.Close())
	}
	require.NoError(t, d.Close())
	_, err = d.Alloc(10, 0)
	require.ErrorIs(t, err, device.ErrClosed)
	_, err = d.Register(make([]byte, 10), 0)
	require.ErrorIs(t, err, device.ErrClosed)
}

// Close waits for copies that are under way.
func TestCloseWaits(t *testing.T) {
	c := newCouple(t, 1000, remoteAll)
	c.devB().leaseWait = time.Minute
	v, _, err := c.devA().views.hold(c.mr.RKey())
	require.NoError(t, err)
	defer v.release()
	ctl := v.control()
	ctl.enter()
	require.True(t, ctl.holds())
	var returned atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := c.mr.Close(); err != nil {
			t.Error(err)
		}
		returned.Store(true)
	})
	for ctl.holds() {
		runtime.Gosched()
	}
	for range 1000 {
		runtime.Gosched()
		require.False(t, returned.Load())
	}
	v.data[0] = 1 // the owner's memory is still there, whatever it is worth
	require.Equal(t, byte(1), c.mr.Bytes()[0])
	ctl.leave()
	wait.Wait()
	require.Zero(t, c.devB().abandoned.Load())
}

// Whoever copies for ever does not keep Close: it leaves the pages to it.
func TestCloseAbandons(t *testing.T) {
	const size = 50_000
	c := newCouple(t, size, remoteAll)
	copy(c.mr.Bytes(), "old")
	v, _, err := c.devA().views.hold(c.mr.RKey())
	require.NoError(t, err)
	v.control().enter()
	f := c.file(c.mr)
	full := blocks(t, f)
	require.NoError(t, c.mr.Close())
	require.Equal(t, uint64(1), c.devB().abandoned.Load())
	require.Equal(t, "old", string(v.data[:3]))
	v.data[0] = 'n'
	require.Equal(t, make([]byte, size), c.mr.Bytes(), "the owner sees nothing of it")
	require.Equal(t, full, blocks(t, f))
	require.NotContains(t, names(t, c.dir), regionName(c.mr.RKey()))
	require.False(t, v.control().holds())
	v.control().leave()
	v.release()
}

func countMappings(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	n := 0
	for _, c := range b {
		if c == '\n' {
			n++
		}
	}
	return n
}

func countFiles(t testing.TB) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(es)
}

// Regions come and go; descriptors, mappings and addresses do not add up.
func TestRegionLeaks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	c := newCouple(t, 100, remoteAll)
	local := make([]byte, 64)
	var live []device.MR
	turn := func(n int) {
		for range n {
			mr, err := c.devB().Alloc(64+rng.IntN(200_000), []device.Access{remoteAll, device.RemoteRead}[rng.IntN(2)])
			require.NoError(t, err)
			require.Zero(t, mr.Bytes()[0])
			mr.Bytes()[0] = 1
			c.mr = mr
			c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
			if live = append(live, mr); len(live) > 5 {
				i := rng.IntN(len(live))
				require.NoError(t, live[i].Close())
				live = append(live[:i], live[i+1:]...)
			}
		}
		c.devA().watch.look()
	}
	turn(1000)
	files, mappings := countFiles(t), countMappings(t)
	turn(2000)
	require.InDelta(t, files, countFiles(t), 2, "the runtime may open one")
	require.InDelta(t, mappings, countMappings(t), 100)
	const classes = 7 // of lengths that occur
	require.LessOrEqual(t, len(c.devB().ranges.all), classes*(restFor+7))
	for _, mr := range live {
		require.NoError(t, mr.Close())
	}
}

// A range rests before it is used again.
func TestRanges(t *testing.T) {
	var r ranges
	first, err := r.take(5000)
	require.NoError(t, err)
	require.Len(t, first, 8192)
	require.NoError(t, blank(first))
	first[0] = 1
	r.rest(first)
	for range restFor {
		mem, err := r.take(8192)
		require.NoError(t, err)
		require.NotSame(t, &first[0], &mem[0])
		defer r.rest(mem)
	}
	var rest [][]byte
	for range restFor {
		mem, err := r.take(4097)
		require.NoError(t, err)
		rest = append(rest, mem)
	}
	for _, mem := range rest {
		r.rest(mem)
	}
	again, err := r.take(8192)
	require.NoError(t, err)
	require.Same(t, &first[0], &again[0])
	require.NoError(t, r.close())
	_, err = r.take(1)
	require.ErrorIs(t, err, device.ErrClosed)
	require.ErrorIs(t, unix.Msync(unsafe.Slice(&again[0], pageBytes), unix.MS_ASYNC), unix.ENOMEM, "unmapped")
}

// More regions than may be mapped at one time: those least used go.
func TestViewsBounded(t *testing.T) {
	c := newCouple(t, 64, remoteAll)
	local := make([]byte, 1)
	first := c.mr
	var all []device.MR
	for i := range maxViews + 10 {
		c.mr = c.alloc(1, remoteAll)
		c.mr.Bytes()[0] = byte(i)
		c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
		require.Equal(t, byte(i), local[0])
		all = append(all, c.mr)
		c.mr = first // always the latest
		c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	}
	vs := c.devA().views
	require.Equal(t, maxViews, vs.size())
	require.Contains(t, *vs.byKey.Load(), first.RKey())
	require.NotContains(t, *vs.byKey.Load(), all[0].RKey())
	c.mr = all[0]
	c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	require.Equal(t, byte(0), local[0])
}

// Regions are closed while two queue pairs read them: what a request that ended
// well has read is whole.
func TestCloseUnderWay(t *testing.T) {
	const size, rounds = 32 << 10, 200
	c := newCouple(t, 64, remoteAll)
	var now atomic.Pointer[device.SendWR]
	var stop atomic.Bool
	var good [2]atomic.Int64
	var wait sync.WaitGroup
	for i := range good {
		q, ah := c.a, c.ah
		if i > 0 {
			q, ah = mustAttach(t, c.dir, device.QPConfig{})
		}
		p := portBehind(q)
		wait.Go(func() {
			local := make([]byte, size)
			for ; !stop.Load(); runtime.Gosched() {
				wr := now.Load()
				if wr == nil {
					continue
				}
				req := *wr
				req.AH, req.Payload = ah, local
				switch st := p.RDMA(&req, 0); st {
				case device.StatusOK:
					good[i].Add(1)
					for _, b := range local {
						if b != byte(wr.Imm) {
							t.Errorf("%d in a region of %d", b, byte(wr.Imm))
							return
						}
					}
				case device.StatusBadAddress:
				default:
					t.Errorf("%v", st)
				}
			}
		})
	}
	for round := range rounds {
		mr, err := c.devB().Alloc(size, device.RemoteRead)
		require.NoError(t, err)
		for i := range mr.Bytes() {
			mr.Bytes()[i] = byte(round) | 1
		}
		c.mr = mr
		wr := c.wr(device.WRRead, nil, 0)
		wr.Imm = uint32(round | 1) // what is in it
		now.Store(wr)
		for i := range good {
			for had := good[i].Load(); good[i].Load() == had && !t.Failed(); {
				runtime.Gosched()
			}
		}
		require.NoError(t, mr.Close())
	}
	stop.Store(true)
	wait.Wait()
}

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
			c.devA().views.clear()
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
	for key, lay := range map[uint32]func(path string) error{
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
	require.Zero(t, c.devA().views.size())
	for _, name := range []string{"r", "r1", "r00000000", "r0000000x", "R00000001", "r000000001"} {
		require.False(t, isRegion(name), name)
	}
	// Those whose lock is free are swept, what is no file of ours stays.
	d, err := Open(Config{Dir: c.dir})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	left := names(t, c.dir)
	for key := uint32(1); key <= 3; key++ {
		require.NotContains(t, left, regionName(key))
	}
	require.Contains(t, left, regionName(4))
	require.Contains(t, left, regionName(c.mr.RKey()))
}
