//go:build linux && (amd64 || arm64)

package trap

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// puppeteer is a puppet with a fake device.
type puppeteer struct {
	*job
	*fake
}

func newPuppet(t *testing.T) puppeteer {
	d := newFake()
	return puppeteer{run(t, Config{Device: d}, "puppet"), d}
}

func (p puppeteer) number(format string, args ...any) int {
	p.t.Helper()
	n, err := strconv.Atoi(p.do(format, args...))
	require.NoError(p.t, err, format)
	return n
}

// settled returns the number of sessions that are open, once the closes before it
// have all been heard of: they come in order.
func (p puppeteer) settled() int {
	p.t.Helper()
	p.mu.Lock()
	at := len(p.files)
	p.mu.Unlock()
	fd := p.number("open %d", unix.O_RDWR)
	require.Equal(p.t, "ok", p.do("close %d", fd))
	p.mu.Lock()
	f := p.files[at]
	p.mu.Unlock()
	eventually(p.t, "the last close", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", f.fd))
		return err != nil || p.closed.Load() == p.opened.Load()
	})
	return p.live()
}

func TestCloseEndsSession(t *testing.T) {
	p := newPuppet(t)
	fd := p.number("open %d", unix.O_RDWR)
	require.Equal(t, 1, p.settled())
	require.Equal(t, "ok", p.do("close %d", fd))
	require.Zero(t, p.settled())
	status, _, err := p.wait()
	require.NoError(t, err)
	require.Zero(t, status)
}

func TestReadOnlySession(t *testing.T) {
	p := newPuppet(t)
	fd := p.number("open %d", unix.O_RDONLY)
	require.Equal(t, unix.O_RDONLY, p.number("getfl %d", fd)&unix.O_ACCMODE)
	require.Equal(t, "EACCES", p.do("mmap %d", fd), "writable")
	require.Equal(t, "ok", p.do("close %d", fd))
	require.Zero(t, p.settled())
}

func TestDupKeepsSession(t *testing.T) {
	p := newPuppet(t)
	a := p.number("open %d", unix.O_RDWR)
	b := p.number("dup %d", a)
	require.Equal(t, "ok", p.do("close %d", a))
	require.Equal(t, 1, p.settled())
	require.Equal(t, "EBADF", p.do("request %d %d 0", a, opCount))
	require.Equal(t, p.do("pid"), p.do("request %d %d 0", b, opPID), "the other descriptor works")
	require.Equal(t, "ok", p.do("close %d", b))
	require.Zero(t, p.settled())
}

func TestMappingKeepsSession(t *testing.T) {
	p := newPuppet(t)
	fd := p.number("open %d", unix.O_RDWR)
	a := p.number("mmap %d", fd)
	b := p.number("mmap %d", fd)
	require.Equal(t, "ok", p.do("close %d", fd))
	require.Equal(t, 1, p.settled())
	require.Equal(t, "ok", p.do("munmap %d", a))
	require.Equal(t, 1, p.settled())
	require.Equal(t, "ok", p.do("munmap %d", b))
	require.Zero(t, p.settled())
}

func TestPassedDescriptorKeepsSession(t *testing.T) {
	p := newPuppet(t)
	fd := p.number("open %d", unix.O_RDWR)
	require.Equal(t, "ok", p.do("stash %d", fd))
	require.Equal(t, 1, p.settled(), "on its way through a socket")
	require.Equal(t, "ok", p.do("drop"))
	eventually(t, "the end of what was in the socket", func() bool { return p.live() == 0 }) // the kernel takes its time
}

func TestChildKeepsSession(t *testing.T) {
	for _, end := range []string{"end", "kill"} {
		t.Run(end, func(t *testing.T) {
			p := newPuppet(t)
			fd := p.number("open %d", unix.O_RDWR|unix.O_CLOEXEC)
			child := p.number("spawn %d", fd)
			require.Equal(t, "ok", p.do("close %d", fd))
			require.Equal(t, 1, p.settled())
			require.Equal(t, "ok", p.do("%s %d", end, child))
			require.Zero(t, p.settled())
		})
	}
}

func TestSessionOverExec(t *testing.T) {
	p := newPuppet(t)
	keep := p.number("open %d", unix.O_RDWR)
	drop := p.number("open %d", unix.O_RDWR|unix.O_CLOEXEC)
	require.Zero(t, p.number("cloexec %d", keep))
	require.Equal(t, unix.FD_CLOEXEC, p.number("cloexec %d", drop))
	require.Equal(t, 2, p.settled())
	require.Equal(t, "again", p.do("exec"))
	require.Equal(t, p.do("pid"), p.do("request %d %d 0", keep, opPID))
	require.NotEqual(t, p.do("pid"), p.do("request %d %d 0", drop, opPID))
	require.Equal(t, 1, p.settled())
}

func TestDeathEndsSessions(t *testing.T) {
	for _, how := range []struct {
		name, command string
		status        int
	}{
		{"exit", "exit 3", 3},
		{"kill", fmt.Sprintf("signal %d", unix.SIGKILL), 128 + 9},
		{"term", fmt.Sprintf("signal %d", unix.SIGTERM), 128 + 15},
	} {
		t.Run(how.name, func(t *testing.T) {
			p := newPuppet(t)
			fd := p.number("open %d", unix.O_RDWR)
			p.number("mmap %d", fd)
			p.number("open %d", unix.O_RDWR)
			require.Equal(t, 2, p.live())
			_, err := fmt.Fprintln(p.in, how.command)
			require.NoError(t, err)
			status, _, err := p.wait()
			require.NoError(t, err)
			require.Equal(t, how.status, status)
			require.Zero(t, p.live())
			require.Equal(t, int64(2), p.closed.Load())
		})
	}
}

// A process that outlives the program has the device for itself, and the run goes
// on until it ends.
func TestOrphanKeepsSession(t *testing.T) {
	p := newPuppet(t)
	fd := p.number("open %d", unix.O_RDWR)
	child := p.number("spawn %d", fd)
	require.True(t, alive(child))
	_, err := fmt.Fprintln(p.in, "exit 5") // which closes the child's input
	require.NoError(t, err)
	status, _, err := p.wait()
	require.NoError(t, err)
	require.Equal(t, 5, status)
	require.Zero(t, p.live())
	require.False(t, alive(child))
}

// A program that dies while its ioctl is served gets no answer, and its session
// ends after that ioctl.
func TestDeathInIoctl(t *testing.T) {
	p := newPuppet(t)
	fd := p.number("open %d", unix.O_RDWR)
	pid := p.number("pid")
	_, err := fmt.Fprintf(p.in, "request %d %d 0\n", fd, opBlock)
	require.NoError(t, err)
	<-p.began
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	eventually(t, "death", func() bool { return !alive(pid) })
	require.Equal(t, 1, p.live())
	close(p.block)
	status, _, err := p.wait()
	require.NoError(t, err)
	require.Equal(t, 128+9, status)
	require.Zero(t, p.live())
}

// However the close of the last descriptor and the end of a call come together, the
// file is closed once, and not before.
func TestSessionEndsAfterItsCalls(t *testing.T) {
	var closes int
	s := &session{ended: func() { closes++ }}
	require.True(t, s.enter())
	require.True(t, s.enter())
	s.leave()
	require.Zero(t, closes)
	s.end()
	s.end()
	require.Zero(t, closes)
	require.False(t, s.enter())
	s.leave()
	require.Equal(t, 1, closes)
}
