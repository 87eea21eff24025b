package netlab

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Host is a network namespace with one interface, eth0.
type Host struct {
	lab   *Lab
	index int
	ns    string
	port  string // its place on the switch
	addr  netip.Addr
	wire  *wire // nil: a veth pair

	mu      sync.Mutex
	running []*exec.Cmd
}

// Addr is its IPv4 address.
func (h *Host) Addr() netip.Addr { return h.addr }

// Addr6 is its IPv6 address.
func (h *Host) Addr6() netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 0x77, 15: byte(h.index + 1)})
}

// Loss drops this percentage of the packets from the host, and of those to it.
func (h *Host) Loss(percent int) {
	h.lab.t.Helper()
	require.True(h.lab.t, percent >= 0 && percent <= 100, "percent: %d", percent)
	h.lab.change(func(r *rules) { r.loss[h.index] = percent })
}

// Rate limits the host in both directions to this many kbit/s; 0: no limit.
func (h *Host) Rate(kbit int) {
	h.lab.t.Helper()
	for _, end := range [][2]string{{h.ns, "eth0"}, {h.lab.swtch(), h.port}} {
		if kbit == 0 {
			_ = run("", "tc", "-n", end[0], "qdisc", "del", "dev", end[1], "root")
			continue
		}
		// Segments of veth are up to 64 KiB and must fit into the burst.
		h.lab.run("", "tc", "-n", end[0], "qdisc", "replace", "dev", end[1], "root", "tbf",
			"rate", fmt.Sprint(kbit, "kbit"), "burst", "128k", "latency", "50ms")
	}
}

// Unplug pulls the cable. The host's address stays; nothing leaves or comes.
func (h *Host) Unplug() {
	h.lab.t.Helper()
	h.lab.ip(h.lab.swtch(), fmt.Sprintf("link set %s down\n", h.port))
}

// Plug takes Unplug back.
func (h *Host) Plug() {
	h.lab.t.Helper()
	h.lab.ip(h.lab.swtch(), fmt.Sprintf("link set %s up\n", h.port))
}

// Delay is Options.Delay for this host's packets, from now on.
func (h *Host) Delay(d time.Duration) {
	h.lab.t.Helper()
	require.NotNil(h.lab.t, h.wire, "the lab was made without Options.Delay")
	h.wire.delay.Store(int64(d / 2))
}

// Command is a program that runs on the host when it is started. It is killed with the
// test, and dies with this process.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	c := exec.Command("ip", append([]string{"netns", "exec", h.ns, name}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = append(h.running, c)
	return c
}

// Run runs a program to its end and returns all that it said.
func (h *Host) Run(name string, args ...string) (string, error) {
	var out bytes.Buffer
	c := h.Command(name, args...)
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

func (h *Host) killAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.running {
		if c.Process != nil && c.ProcessState == nil {
			_ = c.Process.Kill()
		}
	}
}

// Do calls f on a thread that is on the host: sockets that f makes belong there.
// Goroutines that f starts do not.
func (h *Host) Do(f func()) {
	h.lab.t.Helper()
	require.NoError(h.lab.t, within(h.ns, f))
}

// within calls f on a thread in a namespace.
func within(ns string, f func()) error {
	there, err := unix.Open(filepath.Join(nsDir, ns), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", ns, err)
	}
	defer unix.Close(there)
	done := make(chan error, 1)
	go func() {
		// The thread is not unlocked if it cannot come back: it ends with the goroutine.
		runtime.LockOSThread()
		here, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			done <- err
			return
		}
		defer unix.Close(here)
		if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		f()
		if err := unix.Setns(here, unix.CLONE_NEWNET); err == nil {
			runtime.UnlockOSThread()
		}
		done <- nil
	}()
	return <-done
}
