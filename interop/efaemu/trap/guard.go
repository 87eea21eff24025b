//go:build linux && (amd64 || arm64)

package trap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// guard is the parent of the program, and of all that the program leaves behind.
// The supervisor sends it the signals to pass on, one byte each; it sends the
// supervisor the wait status of the program, and ends when it has no children left.
type guard struct {
	life int    // socket to the supervisor
	dir  string // of the program's sysfs, to remove

	mu      sync.Mutex
	program int // 0: has ended
}

// guardMain runs "life ctl dir launcher's arguments...".
func guardMain(args []string) int {
	fds, args, err := take(args, 2)
	if err != nil || len(args) < 4 {
		return statusBroken
	}
	g := &guard{life: fds[0], dir: args[0]}
	outlive()
	if err := g.start(fds[1], args[1:]); err != nil {
		_ = sendmsg(fds[1], []byte(err.Error()), nil)
		return statusBroken
	}
	_ = unix.Close(fds[1])
	go g.listen()
	g.reap()
	_ = os.RemoveAll(g.dir) // the supervisor may be gone
	return 0
}

// outlive takes the signals that a terminal sends to all: the program answers
// them. Handlers, unlike ignored signals, are not inherited.
func outlive() {
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// start starts the launcher, which dies with this process.
func (g *guard) start(ctl int, args []string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	s := starter{
		role: launchRole, args: args, give: []int{ctl}, env: os.Environ(),
		std:  [3]*os.File{os.Stdin, os.Stdout, os.Stderr},
		attr: syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	}
	var err error
	g.program, err = s.start()
	return err
}

// reap waits for every child, and reports the first to the supervisor.
func (g *guard) reap() {
	for {
		var info unix.Siginfo
		_, err := ignoringEINTR(func() (int, error) {
			return 0, unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		})
		if err != nil { // ECHILD
			return
		}
		g.mu.Lock() // a number is not signalled once its process is reaped
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		was := err == nil && pid > 0 && pid == g.program
		if was {
			g.program = 0
		}
		g.mu.Unlock()
		if was {
			_ = sendmsg(g.life, binary.NativeEndian.AppendUint32(nil, uint32(status)), nil)
		}
	}
}

// killAll is the signal that stands for the end of all processes.
const killAll = 0

// listen passes signals on. When the supervisor is gone, or says so, it ends the
// processes, whose end ends the guard.
func (g *guard) listen() {
	for {
		var b [1]byte
		n, _ := ignoringEINTR(func() (int, error) { return unix.Read(g.life, b[:]) })
		if n == 1 && b[0] != killAll {
			g.mu.Lock()
			if g.program != 0 {
				_ = unix.Kill(g.program, unix.Signal(b[0]))
			}
			g.mu.Unlock()
			continue
		}
		g.killChildren()
	}
}

// killChildren kills all processes until none is left. Those of a killed child
// become ours.
func (g *guard) killChildren() {
	for {
		g.mu.Lock()
		for _, pid := range children(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		g.mu.Unlock()
		_, _ = unix.Poll(nil, 5)
	}
}

// children are the processes whose parent is the given one.
func children(parent int) []int {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	var pids []int
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // has ended
		}
		// "pid (name) state ppid ...", and the name may have any characters.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 {
			f := bytes.Fields(stat[i+1:])
			pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if len(f) < 2 || err1 != nil {
				continue
			}
			if ppid, err := strconv.Atoi(string(f[1])); err == nil && ppid == parent {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
