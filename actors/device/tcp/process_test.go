//go:build linux

package tcp

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// The test binary is also the other process: with roleVar set it echoes packets until
// its standard input ends.
const roleVar = "EFACTOR_TCP_TEST_ROLE"

func TestMain(m *testing.M) {
	if addr := os.Getenv(roleVar); addr != "" {
		if err := echo(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if to := os.Getenv(sendVar); to != "" {
		if err := sendOnce(to); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// echo sends each packet back to where it came from.
func echo(addr string) error {
	cfg := Config{Addr: netip.MustParseAddr(addr), AnyLocalUser: os.Getenv(openVar) != "", Timeout: time.Minute}
	if secret := os.Getenv(secretVar); secret != "" {
		var err error
		if cfg.Credentials, err = JobSecret([]byte(secret)); err != nil {
			return err
		}
	}
	d, err := Open(cfg)
	if err != nil {
		return err
	}
	q, err := d.OpenQP(device.QPConfig{QKey: 5, RNRRetry: 7})
	if err != nil {
		return err
	}
	for i := range q.RecvSlots() {
		q.PostRecv([]int32{int32(i)})
	}
	fmt.Println(q.QPN())
	quit := make(chan struct{})
	go func() {
		defer close(quit)
		_, _ = os.Stdin.Read(make([]byte, 1))
	}()
	var c [16]device.Completion
	for {
		select {
		case <-quit:
			return q.Close()
		default:
		}
		n := q.Poll(c[:])
		for i := range c[:n] {
			if c[i].Op != device.OpRecv {
				continue
			}
			ah, err := q.CreateAH(c[i].SrcGID)
			if err != nil {
				return err
			}
			data := q.RecvBytes(int(c[i].ID))[:c[i].Len]
			if err := q.PostSend(&device.SendWR{AH: ah, QPN: c[i].SrcQPN, QKey: 5, Header: data}); err != nil {
				return err
			}
			q.PostRecv([]int32{int32(c[i].ID)})
		}
		q.Doorbell()
		if n == 0 && q.Arm() {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(q.FDs()[0]), Events: unix.POLLIN}}, 100)
		}
	}
}

// startEcho runs the other process on a host of its own.
func startEcho(t *testing.T) (*exec.Cmd, address, interface{ Close() error }) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = os.Environ()
	return startEchoAs(t, cmd)
}

func startEchoAs(t *testing.T, cmd *exec.Cmd) (*exec.Cmd, address, interface{ Close() error }) {
	t.Helper()
	host := nextHost()
	cmd.Env = append(cmd.Env, roleVar+"="+host.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	qpn, err := strconv.ParseUint(strings.TrimSpace(line), 10, 16)
	require.NoError(t, err)
	return cmd, address{GIDOf(host), uint16(qpn)}, in
}

// node is a queue pair with its completions.
type node struct {
	t     *testing.T
	d     *attachment
	q     device.QP
	sends map[uint64]device.Status
	recvs [][]byte
	from  []device.Completion
	gone  []device.Completion
	wrote []device.Completion
	place []byte // for a case with a Placer
	next  uint64
	c     [16]device.Completion
}

func newNode(t *testing.T, cfg Config, qc device.QPConfig) *node {
	t.Helper()
	n := &node{t: t, d: openDevice(t, cfg), sends: map[uint64]device.Status{}}
	qc.QKey = 5
	var err error
	n.q, err = n.d.OpenQP(qc)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.q.Close() })
	for i := range n.q.RecvSlots() {
		n.q.PostRecv([]int32{int32(i)})
	}
	return n
}

func (n *node) at() address { return address{n.d.gid, n.q.QPN()} }

func (n *node) port() (p *port) {
	n.d.eachPort(func(o *port) { p = o })
	return p
}

func (n *node) poll() {
	for _, c := range n.c[:n.q.Poll(n.c[:])] {
		switch c.Op {
		case device.OpSend:
			_, twice := n.sends[c.ID]
			require.False(n.t, twice, "send %d completed twice", c.ID)
			n.sends[c.ID] = c.Status
		case device.OpRecv:
			n.recvs = append(n.recvs, append([]byte{}, n.q.RecvBytes(int(c.ID))[:c.Len]...))
			n.from = append(n.from, c)
			n.q.PostRecv([]int32{int32(c.ID)})
		case device.OpPlaced:
			n.recvs = append(n.recvs, append([]byte{}, n.q.RecvBytes(int(c.ID))[:c.Imm]...))
			n.from = append(n.from, c)
			n.q.PostRecv([]int32{int32(c.ID)})
		case device.OpWritten:
			n.wrote = append(n.wrote, c)
			n.q.PostRecv([]int32{int32(c.ID)})
		case device.OpGone:
			n.gone = append(n.gone, c)
		}
	}
}

// until polls all nodes until cond holds, for patience at most, and returns how long it
// took.
func until(t *testing.T, what string, cond func() bool, nodes ...*node) time.Duration {
	t.Helper()
	const patience = 90 * time.Second
	begin := clock.System.Now()
	for !cond() {
		require.Less(t, clock.System.Now().Sub(begin), patience, "never happened: %s", what)
		for _, n := range nodes {
			n.poll()
		}
		pause(nodes)
	}
	return clock.System.Now().Sub(begin)
}

// pause waits until one of the nodes has something to do, a millisecond at most.
func pause(nodes []*node) {
	fds := make([]unix.PollFd, 0, len(nodes))
	for _, n := range nodes {
		if !n.q.Arm() {
			return
		}
		fds = append(fds, unix.PollFd{Fd: int32(n.q.FDs()[0]), Events: unix.POLLIN})
	}
	_, _ = unix.Poll(fds, 1)
}

func (n *node) wr(to address) *device.SendWR {
	n.t.Helper()
	ah, err := n.q.CreateAH(to.gid)
	require.NoError(n.t, err)
	n.next++
	return &device.SendWR{ID: n.next, AH: ah, QPN: to.qpn, QKey: 5}
}

func (n *node) post(wr *device.SendWR) uint64 {
	n.t.Helper()
	require.NoError(n.t, n.q.PostSend(wr))
	n.q.Doorbell()
	return wr.ID
}

func (n *node) send(to address, data string) uint64 {
	n.t.Helper()
	wr := n.wr(to)
	wr.Header = []byte(data)
	return n.post(wr)
}

// status waits for the end of a send.
func (n *node) status(id uint64, nodes ...*node) device.Status {
	n.t.Helper()
	until(n.t, fmt.Sprintf("the end of send %d", id), func() bool { _, ok := n.sends[id]; return ok }, append(nodes, n)...)
	return n.sends[id]
}

// ping sends a packet to an echo and waits for it.
func (n *node) ping(to address) {
	n.t.Helper()
	have := len(n.recvs)
	require.Equal(n.t, device.StatusOK, n.status(n.send(to, "ping")))
	until(n.t, "echo", func() bool { return len(n.recvs) > have }, n)
}

// halt stops a process, and waits until none of its threads runs any more.
func halt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Signal(unix.SIGSTOP))
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", cmd.Process.Pid))
	require.NoError(t, err)
	until(t, "that it stops", func() bool {
		for _, task := range tasks {
			stat, err := os.ReadFile(task)
			if _, state, ok := strings.Cut(string(stat), ") "); err == nil && ok && state[0] != 'T' {
				return false
			}
		}
		return true
	})
}

// TestKilled: the death of a process is known at once, requests in progress end, and
// the queue pair is reported gone, once.
func TestKilled(t *testing.T) {
	cmd, at, _ := startEcho(t)
	n := newNode(t, Config{Timeout: 5 * testenv.Hang}, device.QPConfig{})
	n.ping(at)
	halt(t, cmd)
	id := n.send(at, "too late")
	require.NoError(t, cmd.Process.Kill())
	took := until(t, "death", func() bool { return len(n.gone) == 1 && len(n.sends) == 2 }, n)
	require.Less(t, took, testenv.Hang, "no silence had to tell")
	require.True(t, n.sends[id].Gone(), n.sends[id].String())
	require.Equal(t, at.qpn, n.gone[0].SrcQPN)
	require.EqualValues(t, 5, n.gone[0].QKey)
	require.Equal(t, device.StatusBadDestQPN, n.status(n.send(at, "nobody")))
	require.Len(t, n.gone, 1)
	require.EqualValues(t, 1, n.d.Stats().Gone)
}

// TestClosed: a queue pair that is closed says bye, and is reported as that.
func TestClosed(t *testing.T) {
	cmd, at, in := startEcho(t)
	n := newNode(t, Config{}, device.QPConfig{})
	n.ping(at)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	require.Equal(t, device.StatusBadDestQPN, n.status(n.send(at, "nobody")))
	require.True(t, len(n.gone) == 1 && n.gone[0].Left)
	require.Zero(t, n.d.Stats().Broken)
}

// TestStopped: a process that does not run is noticed within the timeout, and is not
// taken for dead.
func TestStopped(t *testing.T) {
	testenv.Long(t, "a peer stands still for real seconds")
	const timeout = 1500 * time.Millisecond
	inTime(t, func() {
		cmd, at, _ := startEcho(t)
		n := newNode(t, Config{Timeout: timeout}, device.QPConfig{})
		n.ping(at)
		halt(t, cmd)
		begin := clock.System.Now()
		id := n.send(at, "asleep?")
		require.Equal(t, device.StatusUnresponsive, n.status(id))
		require.Greater(t, clock.System.Now().Sub(begin), timeout/2)
		require.Equal(t, device.StatusUnresponsive, n.status(n.send(at, "still?")), "the kernel of the stopped takes connections")
		require.NoError(t, cmd.Process.Signal(unix.SIGCONT))
		until(t, "that it comes back", func() bool { return n.status(n.send(at, "hello")) == device.StatusOK }, n)
		require.Empty(t, n.gone)
	})
}
