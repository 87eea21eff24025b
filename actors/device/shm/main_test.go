//go:build linux

package shm

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/actors/device"
)

// The test binary is also the other process: with roleVar set it plays one of the
// roles below instead of running tests.
const roleVar = "EFACTOR_SHM_TEST_ROLE"

var roles = map[string]func(args []string) error{}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, role, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// process is a running role. Its first line of output says that it is ready; it
// ends when its standard input does, or is killed with the test.
type process struct {
	cmd   *exec.Cmd
	stdin interface{ Close() error }
	out   *bufio.Scanner
	qpn   uint16 // if its first line is a number
}

func start(t testing.TB, role string, args ...any) *process {
	t.Helper()
	return startWith(t, nil, role, args...)
}

func startWith(t testing.TB, attr *syscall.SysProcAttr, role string, args ...any) *process {
	t.Helper()
	var text []string
	for _, a := range args {
		text = append(text, fmt.Sprint(a))
	}
	cmd := exec.Command(os.Args[0], text...)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd, stdin: in, out: bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	n, _ := strconv.ParseUint(p.line(t), 10, 16)
	p.qpn = uint16(n)
	return p
}

// line waits for the next line of output.
func (p *process) line(t testing.TB) string {
	t.Helper()
	require.True(t, p.out.Scan(), "the process has ended: %v", p.out.Err())
	return strings.TrimSpace(p.out.Text())
}

// kill ends the process at an arbitrary instruction.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// end lets the process end by itself.
func (p *process) end(t testing.TB) {
	t.Helper()
	require.NoError(t, p.stdin.Close())
	require.NoError(t, p.cmd.Wait())
}

// say prints a line for the parent, in a role.
func say(args ...any) { fmt.Println(args...) }

// orphaned is closed when the parent lets a role end, or is dead.
func orphaned() <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		_, _ = os.Stdin.Read(make([]byte, 1))
	}()
	return c
}

// attach opens a device and one queue pair with all its receives posted.
func attach(dir string, qc device.QPConfig) (device.Device, device.QP, device.AH, error) {
	d, err := Open(Config{Dir: dir})
	if err != nil {
		return nil, nil, 0, err
	}
	q, err := d.OpenQP(qc)
	if err != nil {
		return nil, nil, 0, err
	}
	ah, err := q.CreateAH(d.Info().GID)
	for i := range q.RecvSlots() {
		q.PostRecv([]int32{int32(i)})
	}
	return d, q, ah, err
}

// portOf finds the only port of a test's device.
func portOf(t testing.TB, d device.Device) *port {
	t.Helper()
	w := d.(*attachment).watch
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.ports {
		return p
	}
	t.Fatal("no port")
	return nil
}

// portBehind finds the port of a queue pair that mustAttach made.
func portBehind(q device.QP) *port {
	p, _ := portsBehind.Load(q)
	return p.(*port)
}

var portsBehind sync.Map

func mustAttach(t testing.TB, dir string, qc device.QPConfig) (device.QP, device.AH) {
	t.Helper()
	d, q, ah, err := attach(dir, qc)
	require.NoError(t, err)
	portsBehind.Store(q, portOf(t, d))
	t.Cleanup(func() {
		portsBehind.Delete(q)
		if err := q.Close(); !errors.Is(err, device.ErrClosed) {
			require.NoError(t, err)
		}
		require.NoError(t, d.Close())
	})
	return q, ah
}

// fabricDir is a new directory in shared memory.
func fabricDir(t testing.TB) string {
	t.Helper()
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "efactor-test-") //nolint:usetesting // not on a disk
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// pollOnce takes completions. Since all processes in these tests share few
// processors, it lets others run.
func pollOnce(q device.QP, f func(device.Completion)) {
	var c [16]device.Completion
	for _, e := range c[:q.Poll(c[:])] {
		f(e)
	}
	runtime.Gosched()
}
