//go:build linux && (amd64 || arm64)

package nthcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/seccomp"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// childEnv makes the test binary behave as the child; its value is the name of a kind and a
// directory.
const childEnv = "EFACTOR_NTHCALL_CHILD"

// ctl is the child's socket to the parent.
const ctl = 3

// slow is too long for a round in which one thing fails, without the time in which the machine
// did not run it. On an idle machine it takes as long as a peer takes to be given up, and
// Close a second at each end. Only a whole run judges it in seconds.
func slow() time.Duration {
	if testenv.All() {
		return 20 * time.Second
	}
	return testenv.Hang
}

// report is what a child has to say of a round.
type report struct {
	Took    time.Duration
	Errs    []string       // of each step that failed
	Bad     []string       // what makes the row an open one
	Left    []string       // what was left behind
	Methods map[string]int // how often each was called
	Hit     bool           // the method was called so often
}

// child runs rounds as the parent asks for them.
func child(arg string) error {
	name, dir, _ := strings.Cut(arg, "=")
	var k kind
	for _, k = range kinds {
		if k.name == name {
			break
		}
	}
	if err := beSupervised(); err != nil {
		return err
	}
	var idle lag
	go idle.watch()
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(ctl, buf)
		if err != nil || n == 0 {
			return err
		}
		var r row
		if err := json.Unmarshal(buf[:n], &r); err != nil {
			return err
		}
		rep, err := k.play(dir, r, &idle)
		if err != nil {
			return err
		}
		out, err := json.Marshal(rep)
		if err != nil {
			return err
		}
		if _, err := unix.Write(ctl, out); err != nil {
			return err
		}
	}
}

// beSupervised installs the filter and gives the listener to the parent.
func beSupervised() error {
	unix.CloseOnExec(ctl)
	at, err := syscallAt()
	if err != nil {
		return err
	}
	epoll, err := runtimeEpoll()
	if err != nil {
		return err
	}
	fd, err := seccomp.InstallOnProcess(filter(at, ctl, epoll))
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(ctl, []byte("listener"), unix.UnixRights(fd), nil, 0); err != nil {
		return err
	}
	return unix.Close(fd)
}

func mark(phase uintptr) { _, _, _ = unix.Syscall(unix.SYS_GETPRIORITY, markWhich, phase, 0) }

// play runs one round.
func (k *kind) play(dir string, r row, idle *lag) (*report, error) {
	before, err := take([]string{dir})
	if err != nil {
		return nil, err
	}
	f := newFaults(r)
	rd := round{moment: slices.Contains(passing, r.Errno) || r.Err == unsent}
	begin, idled := clock.System.Now(), idle.read()
	mark(markBegin)
	k.run(dir, f, &rd)
	mark(markEnd)
	rep := &report{Took: clock.System.Now().Sub(begin) - (idle.read() - idled)}
	rep.Methods, rep.Hit = f.seen()
	if rep.Took > slow() {
		rep.Bad = append(rep.Bad, fmt.Sprintf("takes %v", rep.Took))
	}
	for _, e := range rd.errs {
		text := e.step + ": " + e.err.Error()
		rep.Errs = append(rep.Errs, text)
		if bad := judge(e, r); bad != "" {
			rep.Bad = append(rep.Bad, bad+": "+text)
		}
	}
	rep.Left, err = remains(before, []string{dir}, r)
	return rep, err
}

// run runs the program on devices that fail as f says, or on those that the fabrics open.
func (k *kind) run(dir string, f *faults, rd *round) {
	setup := efa.Setup{Endpoint: efa.EndpointConfig{
		Protocol: efa.ProtocolConfig{ProbeAfter: probeAfter, PeerTimeout: peerTimeout},
	}}
	if f.row.Method == "" && k.config != nil {
		setup.Fabric = k.config(dir)
		rd.run(setup, setup)
		return
	}
	a, b, err := k.pair(dir)
	if rd.failed("open of a device", err) {
		return
	}
	wrap := func(d device.Device) efa.Setup {
		s := setup
		s.Fabric.Device = d
		if f.row.Method != "" {
			s.Fabric.Device = &faultyDevice{d, f}
		}
		return s
	}
	sa, sb := wrap(a), wrap(b)
	rd.run(sa, sb)
	rd.failed("close of a device", sa.Fabric.Device.Close())
	rd.failed("close of a device", sb.Fabric.Device.Close())
}

// judge says what is wrong with an error; "": nothing.
func judge(e stepError, r row) string {
	switch {
	case errors.Is(e.err, errWrong):
		return "wrong data"
	case errors.Is(e.err, errBuried):
		return "leaves damage"
	case errors.Is(e.err, errHangs), errors.Is(e.err, context.DeadlineExceeded):
		return "hangs"
	case r.N == 0:
		return "no call failed"
	case r.Method == "" && errors.Is(e.err, r.Errno), r.Method != "" && errors.Is(e.err, deviceErrors[r.Err]):
		return ""
	}
	// What an operation ends with is an error of its own, about the peer, the device or
	// memory.
	for _, known := range []error{efa.ErrPeerFailed, efa.ErrPeerAborted, efa.ErrIO, efa.ErrNoMemory, efa.ErrNoMR, efa.ErrHostUnreach, efa.ErrAccess} {
		if errors.Is(e.err, known) {
			return ""
		}
	}
	return "does not say what failed"
}

func runChild(arg string) {
	if err := child(arg); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
