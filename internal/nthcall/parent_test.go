//go:build linux && (amd64 || arm64)

package nthcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/seccomp"
	"github.com/efactor/efactor/runtime/clock"
)

// roundBound is for how long a round may last, whatever fails in it: all steps of one that
// hangs.
const roundBound = 5 * stepBound

// runner runs rounds in a child, and in another child after one that came to no end.
type runner struct {
	arg    string // of the child
	cmd    *exec.Cmd
	conn   *net.UnixConn
	sup    *supervisor
	stderr bytes.Buffer
}

func (x *runner) start() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ctl"), os.NewFile(uintptr(fds[1]), "ctl")
	defer ours.Close()
	defer theirs.Close()
	x.stderr.Reset()
	x.cmd = exec.Command("/proc/self/exe")
	x.cmd.Env = append(os.Environ(), childEnv+"="+x.arg, "GOTRACEBACK=all",
		"GODEBUG=containermaxprocs=0,updatemaxprocs=0") // the Go runtime looks up limits by system calls of its own
	x.cmd.ExtraFiles = []*os.File{theirs}
	x.cmd.Stderr = &x.stderr
	if err := x.cmd.Start(); err != nil {
		return err
	}
	conn, err := net.FileConn(ours)
	if err != nil {
		return err
	}
	x.conn = conn.(*net.UnixConn)
	l, err := x.listener()
	if err != nil {
		return fmt.Errorf("child: %w\n%s", err, x.stop())
	}
	x.sup = supervise(l)
	return nil
}

// listener is the child's first message.
func (x *runner) listener() (seccomp.Listener, error) {
	if err := x.conn.SetReadDeadline(clock.Deadline(roundBound)); err != nil {
		return -1, err
	}
	var p [64]byte
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := x.conn.ReadMsgUnix(p[:], oob)
	if err != nil {
		return -1, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return -1, errors.Join(errors.New("there is no listener in its message"), err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return -1, err
	}
	return seccomp.Listener(fds[0]), nil
}

// stop ends the child, which says where it is, and returns what it said.
func (x *runner) stop() string {
	if x.cmd == nil {
		return ""
	}
	_ = x.cmd.Process.Signal(unix.SIGQUIT) // it may have ended
	_ = x.cmd.Wait()
	x.close()
	return x.stderr.String()
}

// close lets a child that waits for a row end.
func (x *runner) close() {
	if x.conn != nil {
		_ = x.conn.Close()
	}
	if x.cmd != nil && x.cmd.ProcessState == nil {
		_ = x.cmd.Wait()
	}
	if x.sup != nil {
		<-x.sup.done
	}
	x.cmd, x.conn, x.sup = nil, nil, nil
}

// run runs a round. An error says how the child came to no end, and the next round has
// another child.
func (x *runner) run(r row) (*report, error) {
	if x.cmd == nil {
		if err := x.start(); err != nil {
			return nil, err
		}
	}
	x.sup.set(r)
	rep, err := x.exchange(r)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, x.stop())
	}
	return rep, nil
}

func (x *runner) exchange(r row) (*report, error) {
	out, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if _, err := x.conn.Write(out); err != nil {
		return nil, err
	}
	if err := x.conn.SetReadDeadline(clock.Deadline(roundBound)); err != nil {
		return nil, err
	}
	buf := make([]byte, 1<<20)
	n, err := x.conn.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errors.New("hangs")
	}
	if err != nil {
		return nil, fmt.Errorf("the process has ended: %w", err)
	}
	rep := &report{}
	return rep, json.Unmarshal(buf[:n], rep)
}
