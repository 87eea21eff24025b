//go:build linux

package shm

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

func init() {
	roles["program"] = program
	roles["emulate"] = emulate
	roles["pullForeign"] = pull
}

// program has memory and does not use this package: this many bytes, each its place
// times 7, whose address it prints. "private": it permits no access to it.
func program(args []string) error {
	size, _ := strconv.Atoi(args[0])
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // PR_SET_PTRACER_ANY; without Yama, EINVAL
	if args[1] == "private" {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
	}
	say(uintptr(unsafe.Pointer(&mem[0])))
	<-orphaned()
	return nil
}

// emulate registers the memory of a program. Like own, it says its queue pair's number,
// then the key and the address of the region.
func emulate(args []string) error {
	pid, _ := strconv.Atoi(args[1])
	addr, _ := strconv.ParseUint(args[2], 10, 64)
	size, _ := strconv.Atoi(args[3])
	d, q, _, err := attach(args[0], device.QPConfig{QKey: testQKey})
	if err != nil {
		return err
	}
	mr, err := d.RegisterForeign(pid, addr, size, remoteAll)
	if err != nil {
		return err
	}
	say(q.QPN())
	say(mr.RKey(), mr.Addr())
	<-orphaned()
	if err := mr.Close(); err != nil {
		return err
	}
	return q.Close()
}

// victim is a running program.
type victim struct {
	*exec.Cmd
	addr uint64
	end  func()
}

func (v victim) pid() int { return v.Process.Pid }

func startProgram(t testing.TB, size int, how string) victim {
	t.Helper()
	cmd := exec.Command(os.Args[0], strconv.Itoa(size), how)
	return runProgram(t, cmd)
}

func runProgram(t testing.TB, cmd *exec.Cmd) victim {
	t.Helper()
	cmd.Env = append(os.Environ(), roleVar+"=program")
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	v := victim{Cmd: cmd, end: func() { _, _ = cmd.Process.Kill(), cmd.Wait() }}
	t.Cleanup(v.end)
	_, err = fmt.Fscan(out, &v.addr)
	require.NoError(t, err)
	return v
}

// register makes a region of the program's memory at the couple's second device.
func (c *couple) register(v victim, size int, a device.Access) {
	c.Helper()
	mr, err := c.devB().RegisterForeign(v.pid(), v.addr, size, a)
	require.NoError(c, err)
	c.Cleanup(func() { _ = mr.Close() })
	c.mr = mr
}

// peek reads the program's memory without the device.
func (v victim) peek(t testing.TB, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	p := proc{id: processID{pid: uint32(v.pid())}}
	require.NoError(t, p.move(device.WRRead, b, v.addr))
	return b
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// countPidfds counts the descriptors of processes.
func countPidfds(t testing.TB) (n int) {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range es {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, "pidfd") {
			n++
		}
	}
	return n
}

// One descriptor and one look at /proc serve all regions of a process. Views, their
// descriptors and the files of regions do not add up.
func TestForeignLeaks(t *testing.T) {
	const size = 100_000
	c := newCouple(t, 64, remoteAll)
	v := startProgram(t, size, "open")
	local := make([]byte, size)
	turn := func(n int) {
		for range n {
			c.register(v, size, remoteAll)
			c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
			require.Equal(t, pattern(size), local)
			require.NoError(t, c.mr.Close())
			require.NotContains(t, names(t, c.dir), regionName(c.mr.RKey()))
		}
		c.devA().watch.look()
		require.Zero(t, c.devA().mappings.size())
	}
	turn(20)
	files, mappings := countFiles(t), countMappings(t)
	turn(100)
	settles(t, files+2, countFiles, "files; the runtime may open one")
	settles(t, mappings+50, countMappings, "mappings")

	pidfds := countPidfds(t)
	var keep []device.MR
	for range 50 {
		c.register(v, size, remoteAll)
		c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
		keep = append(keep, c.mr)
	}
	require.Equal(t, 50, c.devA().mappings.size())
	require.Equal(t, pidfds+1, countPidfds(t))
	require.Len(t, c.devA().mappings.procs, 1)

	// When the process ends, each mapping goes as it is met, and the descriptor with
	// the last.
	v.end()
	for _, mr := range keep {
		c.mr = mr
		for range 2 {
			c.ends(c.wr(device.WRRead, local[:10], 0), device.StatusBadAddress)
		}
	}
	require.Zero(t, c.devA().mappings.size())
	require.Equal(t, pidfds-1, countPidfds(t), "os/exec had one, too")
	other := startProgram(t, size, "open")
	c.register(other, size, remoteAll)
	c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	require.Len(t, c.devA().mappings.procs, 1, "the other is forgotten")
	c.devA().watch.look()
	require.Equal(t, 1, c.devA().mappings.size())
	require.Zero(t, c.devA().Stats().Denied)
}

// A region's file is a header that names the process.
func TestForeignFile(t *testing.T) {
	c := newCouple(t, 64, remoteAll)
	v := startProgram(t, 5000, "open")
	c.register(v, 5000, device.RemoteRead)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(c.dir, regionName(c.mr.RKey())), &st))
	require.EqualValues(t, unsafe.Sizeof(regionHeader{}), st.Size)
	local := make([]byte, 5000)
	c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	require.Equal(t, pattern(5000), local)
	c.ends(c.wr(device.WRWrite, local, 0), device.StatusBadAddress)
	c.ends(c.wr(device.WRRead, local[:2], 4999), device.StatusBadAddress)
	hdr := (*c.devA().mappings.byKey.Load())[c.mr.RKey()].hdr
	start, err := startOf(v.pid())
	require.NoError(t, err)
	require.Equal(t, processID{pid: uint32(v.pid()), start: start, space: pidSpace()}, hdr.process)
	require.NotZero(t, start)
	require.NotZero(t, pidSpace())
}

// The process that registered the memory is killed while others read and write it:
// the region ends as one of Alloc would, the program does not notice, and nothing is
// left.
func TestKillRegistrar(t *testing.T) {
	const size = 50_000
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{RNRRetry: 1})
	v := startProgram(t, size, "open")
	files := countFiles(t)
	for round := range 4 {
		p := theirs{process: start(t, "emulate", dir, v.pid(), v.addr, size)}
		_, err := fmt.Sscan(p.line(t), &p.key, &p.addr)
		require.NoError(t, err)
		local := make([]byte, size)
		require.Equal(t, device.StatusOK, statusOf(t, q, p.wr(ah, device.WRRead, local)))
		require.Equal(t, pattern(size), local)
		wr := p.wr(ah, []device.WR{device.WRRead, device.WRWrite}[round%2], local)
		for range 50 {
			require.Equal(t, device.StatusOK, statusOf(t, q, wr))
		}
		if round == 3 { // the orderly end
			p.end(t)
			require.True(t, statusOf(t, q, wr).Gone())
			break
		}
		p.kill()
		st := device.StatusOK
		for st == device.StatusOK {
			st = statusOf(t, q, wr)
		}
		require.True(t, st == device.StatusBadAddress || st.Gone(), "%v", st)
		for range orphanRounds + 1 {
			portBehind(q).dev.watch.look()
		}
		require.Zero(t, portBehind(q).dev.mappings.size())
		require.Len(t, names(t, dir), 2, "our own")
	}
	require.Equal(t, pattern(size), v.peek(t, size))
	settles(t, files+6, countFiles, "files; some are links of the dead")
}

// The number of a process that has ended may be reused when we use it. Bytes read
// from the new process are dropped, and nothing is written to it.
func TestNumberReused(t *testing.T) {
	dead, alive := startProgram(t, 100, "open"), startProgram(t, 100, "open")
	p, err := openProcess(dead.pid(), startOf)
	require.NoError(t, err)
	defer p.release()
	dead.end()
	// As it appears to a process that read the number before it was reused.
	p.id.pid = uint32(alive.pid())
	require.NoError(t, p.move(device.WRRead, make([]byte, 100), alive.addr), "the kernel would not mind")
	require.ErrorIs(t, p.copy(device.WRRead, make([]byte, 100), alive.addr), errOver)
	require.True(t, p.over.Load())
	p.over.Store(false)
	require.ErrorIs(t, p.copy(device.WRWrite, make([]byte, 100), alive.addr), errOver)
	require.Equal(t, pattern(100), alive.peek(t, 100))
	p.over.Store(false)
	require.ErrorIs(t, p.copy(device.WRRead, nil, alive.addr), errOver, "nor are no bytes")
}

// The process ends between its first copy and the second look at the descriptor.
func TestEndsUnderWay(t *testing.T) {
	v := startProgram(t, 100, "open")
	p, err := openProcess(v.pid(), startOf)
	require.NoError(t, err)
	defer p.release()
	local := make([]byte, 100)
	require.NoError(t, p.copy(device.WRRead, local, v.addr))
	require.Equal(t, pattern(100), local)
	require.False(t, p.ended())
	v.end()
	require.ErrorIs(t, p.move(device.WRRead, local, v.addr), errOver)
	require.False(t, p.over.Load(), "only the descriptor says so for good")
	require.ErrorIs(t, p.copy(device.WRRead, local, v.addr), errOver)
	require.True(t, p.over.Load())
}

// When a process is looked for by its number, it must be the one that was meant, and
// must still be there after its start was read.
func TestFindProcess(t *testing.T) {
	v := startProgram(t, 100, "open")
	p, err := openProcess(v.pid(), startOf)
	require.NoError(t, err)
	id := p.id
	p.release()
	again, err := findProcess(id)
	require.NoError(t, err)
	require.Equal(t, id, again.id)
	again.release()
	for _, change := range []func(*processID){
		func(id *processID) { id.start++ },
		func(id *processID) { id.space++ },
		func(id *processID) { id.pid = 0 },
		func(id *processID) { id.pid = 1 << 31 },
		func(id *processID) { id.pid = uint32(os.Getpid()) },
	} {
		other := id
		change(&other)
		_, err := findProcess(other)
		require.ErrorIs(t, err, errOver)
		require.ErrorIs(t, err, unix.ESRCH)
	}
	pidfds := countPidfds(t)
	_, err = openProcess(v.pid(), func(int) (uint64, error) {
		v.end()
		return id.start, nil // another's, by chance the same
	})
	require.ErrorIs(t, err, errOver)
	_, err = openProcess(os.Getpid(), func(int) (uint64, error) { return 0, os.ErrNotExist })
	require.ErrorIs(t, err, errDenied, "/proc is hidden")
	require.Equal(t, pidfds-1, countPidfds(t), "os/exec had one, too")
	_, err = findProcess(id)
	require.ErrorIs(t, err, errOver)
}

// A program may have any name.
func TestStartOf(t *testing.T) {
	me, err := startOf(os.Getpid())
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "a) 1 (b 2")
	require.NoError(t, os.Symlink(os.Args[0], name))
	cmd := exec.Command(name, "1", "open")
	v := runProgram(t, cmd)
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", v.pid()))
	require.NoError(t, err)
	require.Equal(t, "a) 1 (b 2\n", string(comm))
	began, err := startOf(v.pid())
	require.NoError(t, err)
	require.GreaterOrEqual(t, began, me)
	require.Less(t, began, me+3600*100, "within the hour")
	v.end()
	_, err = startOf(v.pid())
	require.Error(t, err)
}

// records keeps what is logged.
type records struct {
	slog.Handler
	lines []string
}

func (r *records) Handle(_ context.Context, rec slog.Record) error {
	line := rec.Message
	rec.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	r.lines = append(r.lines, line)
	return nil
}

// TestOtherNumbers: without a /proc that has the numbers of this process's namespace (below "unshare -pf") a
// number there is another process's. Memory is in files then, with a warning, as if they had been asked for.
func TestOtherNumbers(t *testing.T) {
	proc := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "1", "ns"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(proc, "1", "ns", "pid"), nil, 0o600))
	require.Zero(t, pidSpaceIn(proc), "no /proc")
	require.NoError(t, os.Symlink("1", filepath.Join(proc, "self")))
	require.Zero(t, pidSpaceIn(proc), "another namespace's")
	require.NoError(t, os.Rename(filepath.Join(proc, "1"), filepath.Join(proc, strconv.Itoa(os.Getpid()))))
	require.NoError(t, os.Remove(filepath.Join(proc, "self")))
	require.NoError(t, os.Symlink(strconv.Itoa(os.Getpid()), filepath.Join(proc, "self")))
	require.NotZero(t, pidSpaceIn(proc))

	dir := fabricDir(t)
	asked, err := Open(Config{Dir: dir, Files: true})
	require.NoError(t, err)
	defer func(f func() uint64) { pidSpace = f }(pidSpace)
	pidSpace = func() uint64 { return 0 }
	log := &records{Handler: slog.NewTextHandler(&bytes.Buffer{}, nil)}
	d, err := Open(Config{Dir: dir, Logger: slog.New(log)})
	require.NoError(t, err)
	require.Equal(t, asked.Info().GID, d.Info().GID)
	require.Len(t, log.lines, 1)
	require.Contains(t, log.lines[0], "unshare --mount-proc")
	_, err = d.RegisterForeign(os.Getpid(), 1, 1, remoteAll)
	require.ErrorIs(t, err, errNumbers)
	require.NoError(t, d.Close())
	require.NoError(t, asked.Close())
}

// The kernel does not let us at the memory: requests end, they are counted, and an
// operator can find out why.
func TestForeignDenied(t *testing.T) {
	dir := fabricDir(t)
	log := &records{Handler: slog.NewTextHandler(&bytes.Buffer{}, nil)}
	d, err := Open(Config{Dir: dir, Logger: slog.New(log)})
	require.NoError(t, err)
	q, err := d.OpenQP(device.QPConfig{QPN: testQPN})
	require.NoError(t, err)
	ah, err := q.CreateAH(d.Info().GID)
	require.NoError(t, err)
	v := startProgram(t, 100, "private")
	mr, err := d.RegisterForeign(v.pid(), v.addr, 100, remoteAll)
	require.NoError(t, err)
	require.Equal(t, Stats{}, d.(Counter).Stats())
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread ends with its rights
		if !dropPtrace(t) {
			return
		}
		for range 3 {
			for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
				wr := &device.SendWR{
					AH: ah, QPN: testQPN, Kind: kind, Payload: make([]byte, 10), RKey: mr.RKey(), Remote: mr.Addr(),
				}
				if st := statusOf(t, q, wr); st != device.StatusBadAddress {
					t.Error(st)
				}
			}
		}
	}()
	<-done
	stats := d.(Counter).Stats()
	require.Equal(t, uint64(6), stats.Denied)
	require.ErrorIs(t, stats.Denial, unix.EPERM)
	require.ErrorContains(t, stats.Denial, strconv.Itoa(v.pid()))
	require.Len(t, log.lines, 1, "once")
	require.Contains(t, log.lines[0], stats.Denial.Error())
	require.NoError(t, mr.Close())
	require.NoError(t, q.Close())
	require.NoError(t, d.Close())
}

// dropPtrace drops this thread's right to access every process, if it has it.
func dropPtrace(t *testing.T) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		t.Error(err)
		return false
	}
	data[0].Effective &^= 1 << unix.CAP_SYS_PTRACE
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		t.Error(err)
		return false
	}
	return true
}

// Close of a region waits for copies as others do, but longer: a late write cannot be
// undone.
func TestForeignCloseWaits(t *testing.T) {
	require.Greater(t, foreignWait, 10*leaseWait)
	c := newCouple(t, 64, remoteAll)
	v := startProgram(t, 100, "open")
	for _, ends := range []bool{true, false} {
		c.devB().foreignWait, c.devB().leaseWait = time.Minute, 0
		if !ends {
			c.devB().foreignWait = 5 * time.Millisecond
		}
		c.register(v, 100, remoteAll)
		mapping, _, err := c.devA().mappings.get(c.mr.RKey())
		require.NoError(t, err)
		ctl := mapping.control()
		ctl.addLease()
		closed := make(chan error)
		go func() { closed <- c.mr.Close() }()
		for ctl.open() {
			runtime.Gosched()
		}
		if ends {
			for range 1000 {
				runtime.Gosched()
				select {
				case <-closed:
					t.Fatal("did not wait")
				default:
				}
			}
			ctl.dropLease()
		}
		require.NoError(t, <-closed)
		require.Equal(t, !ends, c.devB().Stats().Abandoned == 1)
		mapping.release()
	}
}

// Garbage in the page of a region ends requests with a status at worst.
func TestForeignGarbage(t *testing.T) {
	c := newCouple(t, 64, remoteAll)
	v := startProgram(t, 5000, "open")
	c.register(v, 5000, remoteAll)
	page, err := unix.Mmap(int(c.file(c.mr).Fd()), 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(page)) }()
	good := bytes.Clone(page)
	local := make([]byte, 100)
	c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	for _, d := range []*attachment{c.devA(), c.devB()} {
		d.watch.look() // so that each has the other's descriptors
	}
	files := countFiles(t)
	for at := range int(unsafe.Sizeof(regionHeader{})) {
		for _, flip := range []byte{1, 0x80, 0xff} {
			c.devA().mappings.clear()
			page[at] ^= flip
			wr := c.wr(device.WRRead, local, 0)
			st := statusOf(t, c.a, wr)
			require.True(t, st == device.StatusOK || st == device.StatusBadAddress, "%v, byte %d", st, at)
			copy(page, good)
		}
	}
	h := regionHeaderOf(page)
	for name, spoil := range map[string]func(){
		"a kind that is none": func() { h.kind = kindProcess + 1 },
		"memory in the file":  func() { h.kind = kindMemory },
		"no process":          func() { h.process.pid = 0 },
		"a negative one":      func() { h.process.pid = 1<<32 - 1 },
		"another":             func() { h.process.pid = uint32(os.Getpid()) },
		"another of the name": func() { h.process.start++ },
		"another host's":      func() { h.process.space++ },
	} {
		c.devA().mappings.clear()
		spoil()
		c.ends(c.wr(device.WRRead, local, 0), device.StatusBadAddress)
		require.Zero(t, c.devA().mappings.size(), name)
		copy(page, good)
	}
	settles(t, files+2, countFiles, "files; the runtime may open one")
	c.ends(c.wr(device.WRRead, local, 0), device.StatusOK)
	require.Equal(t, pattern(100), local)
	require.Zero(t, c.devA().Stats().Denied)
}

// A copying process is killed in the middle: its lease delays the owner for a
// while.
func TestKillForeignPuller(t *testing.T) {
	c := newCouple(t, 64, remoteAll)
	c.devB().foreignWait = 20 * time.Millisecond
	v := startProgram(t, 100, "open")
	c.register(v, 100, remoteAll)
	start(t, "pullForeign", c.dir, c.mr.RKey()).kill()
	require.NoError(t, c.mr.Close())
	require.Equal(t, uint64(1), c.devB().Stats().Abandoned)
	require.NotContains(t, names(t, c.dir), regionName(c.mr.RKey()))
}
