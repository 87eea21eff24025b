//go:build linux

package shm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// A closed region is unreachable, mapped or not, its file and its memory are gone,
// and its addresses are blank.
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
	require.Equal(t, 1, c.devA().mappings.size())
	for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
		wr := c.wr(kind, make([]byte, 6), 0)
		c.ends(wr, device.StatusBadAddress)
		wr.AH = ah
		require.Equal(t, device.StatusBadAddress, statusOf(t, other, wr))
	}
	require.Zero(t, c.devA().mappings.size())
	require.Equal(t, make([]byte, size), c.mr.Bytes())
	c.mr.Bytes()[0] = 1 // wrong, but no reason to crash
	require.ErrorIs(t, c.mr.Close(), device.ErrClosed)

	// The watcher drops regions that are no longer used.
	c.mr = c.alloc(size, remoteAll)
	c.ends(c.wr(device.WRRead, make([]byte, 6), 0), device.StatusOK)
	c.devA().watch.look()
	require.Equal(t, 1, c.devA().mappings.size())
	require.NoError(t, c.mr.Close())
	c.devA().watch.look()
	require.Zero(t, c.devA().mappings.size())
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
	c.devB().leaseWait = testenv.Hang
	c.mr = c.alloc(1000, remoteAll) // which is for this one
	v, _, err := c.devA().mappings.get(c.mr.RKey())
	require.NoError(t, err)
	defer v.release()
	ctl := v.control()
	ctl.addLease()
	require.True(t, ctl.open())
	var returned atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := c.mr.Close(); err != nil {
			t.Error(err)
		}
		returned.Store(true)
	})
	for ctl.open() {
		runtime.Gosched()
	}
	for range 1000 {
		runtime.Gosched()
		require.False(t, returned.Load())
	}
	v.data[0] = 1 // the owner's memory is still there, though its contents do not matter
	require.Equal(t, byte(1), c.mr.Bytes()[0])
	ctl.dropLease()
	wait.Wait()
	require.Zero(t, c.devB().abandoned.Load())
}

// A copy that never ends does not hold up Close, which abandons the pages.
func TestCloseAbandons(t *testing.T) {
	const size = 50_000
	c := newCouple(t, size, remoteAll)
	copy(c.mr.Bytes(), "old")
	v, _, err := c.devA().mappings.get(c.mr.RKey())
	require.NoError(t, err)
	v.control().addLease()
	f := c.file(c.mr)
	full := blocks(t, f)
	require.NoError(t, c.mr.Close())
	require.Equal(t, uint64(1), c.devB().abandoned.Load())
	require.Equal(t, "old", string(v.data[:3]))
	v.data[0] = 'n'
	require.Equal(t, make([]byte, size), c.mr.Bytes(), "the owner sees nothing of it")
	require.Equal(t, full, blocks(t, f))
	require.NotContains(t, names(t, c.dir), regionName(c.mr.RKey()))
	require.False(t, v.control().open())
	v.control().dropLease()
	v.release()
}

// Regions are closed while two queue pairs read them: the data of a request that
// ended well is whole.
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

func init() {
	roles["own"] = own
	roles["pull"] = pull
}

const remoteAll = device.LocalWrite | device.RemoteRead | device.RemoteWrite

// own has a region of this many bytes, each its place times 7, until it ends. It
// prints its queue pair's number, then key and address of the region.
func own(args []string) error {
	size, _ := strconv.Atoi(args[1])
	access, _ := strconv.Atoi(args[2])
	d, q, _, err := attach(args[0], device.QPConfig{QKey: testQKey})
	if err != nil {
		return err
	}
	mr, err := d.Alloc(size, device.Access(access))
	if err != nil {
		return err
	}
	for i := range mr.Bytes() {
		mr.Bytes()[i] = byte(i * 7)
	}
	say(q.QPN())
	say(mr.RKey(), mr.Addr())
	<-orphaned()
	if err := mr.Close(); err != nil {
		return err
	}
	return q.Close()
}

// theirs is a region of another process.
type theirs struct {
	*process
	key  uint64
	addr uint64
}

func startOwner(t testing.TB, dir string, size int, access device.Access) theirs {
	t.Helper()
	p := theirs{process: start(t, "own", dir, size, uint8(access))}
	_, err := fmt.Sscan(p.line(t), &p.key, &p.addr)
	require.NoError(t, err)
	return p
}

func (p theirs) wr(ah device.AH, kind device.WR, local []byte) *device.SendWR {
	return &device.SendWR{
		AH: ah, QPN: p.qpn, QKey: testQKey, Kind: kind, Payload: local, RKey: p.key, Remote: p.addr,
	}
}

// Two processes: what one has in a region the other reads, and the other way round.
func TestReadOtherProcess(t *testing.T) {
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{})
	p := startOwner(t, dir, maxRDMA, remoteAll)
	local := make([]byte, maxRDMA)
	require.Equal(t, device.StatusOK, statusOf(t, q, p.wr(ah, device.WRRead, local)))
	for i := range local {
		require.Equal(t, byte(i*7), local[i])
	}
	data := parcel(make([]byte, 5000), 9)
	require.Equal(t, device.StatusOK, statusOf(t, q, p.wr(ah, device.WRWrite, data)))
	require.Equal(t, device.StatusOK, statusOf(t, q, p.wr(ah, device.WRRead, local)))
	require.Equal(t, data, local[:5000])
	require.Equal(t, byte(5000*7&0xff), local[5000])
	p.end(t)
	require.True(t, statusOf(t, q, p.wr(ah, device.WRRead, local)).Gone())
	require.Len(t, names(t, dir), 2)
}

// The owner of a region is killed while others copy from it and to it. They live,
// hear of it, and in the end nothing is left of the region.
func TestKillOwner(t *testing.T) {
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{RNRRetry: 1})
	local := make([]byte, maxRDMA)
	for round := range 6 {
		p := startOwner(t, dir, 2*maxRDMA, remoteAll)
		wr := p.wr(ah, []device.WR{device.WRRead, device.WRWrite}[round%2], local)
		for range 50 {
			require.Equal(t, device.StatusOK, statusOf(t, q, wr))
		}
		require.Contains(t, names(t, dir), regionName(p.key))
		p.kill()
		gone := 0
		take := func(e device.Completion) {
			if e.Op == device.OpGone {
				require.Equal(t, p.qpn, e.SrcQPN)
				gone++
			}
		}
		var st device.Status
		for st = device.StatusOK; st == device.StatusOK; {
			require.NoError(t, q.PostSend(wr))
			for over := false; !over; {
				pollOnce(q, func(e device.Completion) {
					if take(e); e.Op == device.OpSend {
						st, over = e.Status, true
					}
				})
			}
		}
		require.True(t, st == device.StatusBadAddress || st.Gone(), "%v", st)
		for gone == 0 {
			pollOnce(q, take)
		}
		w := portBehind(q).dev.watch
		for range orphanRounds {
			w.look()
		}
		require.Len(t, names(t, dir), 2, "our own")
		require.Zero(t, portBehind(q).dev.mappings.size())
		require.True(t, statusOf(t, q, wr).Gone())
	}
}

// pull takes a lease of a region, says so and stands still in the middle of the
// copy.
func pull(args []string) error {
	key, _ := strconv.ParseUint(args[1], 10, 32)
	d, q, _, err := attach(args[0], device.QPConfig{})
	if err != nil {
		return err
	}
	v, _, err := d.(*attachment).mappings.get(key)
	if err != nil {
		return err
	}
	v.control().addLease()
	if !v.control().open() {
		return errNoRegion
	}
	say(q.QPN())
	<-orphaned()
	return nil
}

// A copying process is killed: its lease does not keep the owner.
func TestKillPuller(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{})
	dev := portBehind(q).dev
	for round := range uint64(3) {
		mr, err := dev.Alloc(100_000, remoteAll)
		require.NoError(t, err)
		p := start(t, "pull", dir, mr.RKey())
		if round > 0 { // once it lives on
			p.kill()
		}
		require.NoError(t, mr.Close())
		require.Equal(t, round+1, dev.abandoned.Load())
		require.NotContains(t, names(t, dir), regionName(mr.RKey()))
		require.Zero(t, mr.Bytes()[99_999])
	}
}

// The files of a killed owner are removed when a process opens the directory, or
// looks for the region.
func TestStaleRegions(t *testing.T) {
	dir := fabricDir(t)
	startOwner(t, dir, 1000, remoteAll).kill()
	require.Len(t, names(t, dir), 3)
	q, _ := mustAttach(t, dir, device.QPConfig{})
	require.Len(t, names(t, dir), 2)

	p := startOwner(t, dir, 1000, remoteAll)
	require.Len(t, names(t, dir), 5)
	p.kill()
	_, _, err := portBehind(q).dev.mappings.get(p.key)
	require.Equal(t, device.StatusBadAddress, portBehind(q).dev.mappings.statusOf(err))
	require.NotContains(t, names(t, dir), regionName(p.key))
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

// settles waits until there are no more than this many: a watcher at work holds a
// few, but none for long.
func settles(t testing.TB, most int, count func(testing.TB) int, what string) {
	t.Helper()
	for from := clock.System.Now(); ; runtime.Gosched() {
		n := count(t)
		if n <= most {
			return
		}
		require.Less(t, clock.System.Now().Sub(from), testenv.Hang, "%d %s, not %d", n, what, most)
	}
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
	settles(t, files+2, countFiles, "files; the runtime may open one")
	settles(t, mappings+100, countMappings, "mappings")
	const classes = 7 // of lengths that occur
	require.LessOrEqual(t, len(c.devB().ranges.all), classes*(reuseAfter+7))
	for _, mr := range live {
		require.NoError(t, mr.Close())
	}
}

// A range rests before it is used again.
func TestRanges(t *testing.T) {
	var r ranges
	first, err := r.get(5000)
	require.NoError(t, err)
	require.Len(t, first, 8192)
	require.NoError(t, blank(first))
	first[0] = 1
	r.put(first)
	for range reuseAfter {
		mem, err := r.get(8192)
		require.NoError(t, err)
		require.NotSame(t, &first[0], &mem[0])
		defer r.put(mem)
	}
	var rest [][]byte
	for range reuseAfter {
		mem, err := r.get(4097)
		require.NoError(t, err)
		rest = append(rest, mem)
	}
	for _, mem := range rest {
		r.put(mem)
	}
	again, err := r.get(8192)
	require.NoError(t, err)
	require.Same(t, &first[0], &again[0])
	require.NoError(t, r.close())
	_, err = r.get(1)
	require.ErrorIs(t, err, device.ErrClosed)
	require.ErrorIs(t, unix.Msync(unsafe.Slice(&again[0], pageBytes), unix.MS_ASYNC), unix.ENOMEM, "unmapped")
}

// More regions than may be mapped at one time: those least used go.
func TestViewsBounded(t *testing.T) {
	c := newCouple(t, 64, remoteAll)
	local := make([]byte, 1)
	first := c.mr
	var all []device.MR
	for i := range maxMappings + 10 {
		c.mr = c.alloc(1, remoteAll)
		c.mr.Bytes()[0] = byte(i)
		c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
		require.Equal(t, byte(i), local[0])
		all = append(all, c.mr)
		c.mr = first // always the latest
		c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	}
	vs := c.devA().mappings
	require.Equal(t, maxMappings, vs.size())
	require.Contains(t, *vs.byKey.Load(), first.RKey())
	require.NotContains(t, *vs.byKey.Load(), all[0].RKey())
	c.mr = all[0]
	c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	require.Equal(t, byte(0), local[0])
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
