//go:build linux && (amd64 || arm64)

package trap

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func init() {
	roles["puppet"] = puppet
	roles["holder"] = func([]string) error {
		_, _ = os.Stdin.Read(make([]byte, 1))
		return nil
	}
}

// puppet executes the lines of its input, and answers each with a line.
func puppet(args []string) error {
	for _, a := range args {
		fmt.Println(a)
	}
	p := &puppetState{maps: map[int][]byte{}, children: map[int]*exec.Cmd{}, stdin: map[int]func() error{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		var n []int
		for _, s := range f[1:] {
			var v int
			if _, err := fmt.Sscan(s, &v); err != nil {
				return err
			}
			n = append(n, v)
		}
		fmt.Println(p.do(f[0], n))
	}
	return lines.Err()
}

type puppetState struct {
	maps     map[int][]byte
	children map[int]*exec.Cmd
	stdin    map[int]func() error // ends a child
	stash    [2]int
}

func (p *puppetState) do(what string, n []int) any {
	v, err := p.try(what, n)
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	if err != nil {
		return err
	}
	return v
}

func (p *puppetState) try(what string, n []int) (any, error) {
	switch what {
	case "open": // flags
		return unix.Open(DevicePath, n[0], 0)
	case "close":
		return "ok", unix.Close(n[0])
	case "dup":
		return unix.Dup(n[0])
	case "mmap": // fd
		b, err := unix.Mmap(n[0], 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		p.maps[len(p.maps)] = b
		return len(p.maps) - 1, nil
	case "munmap":
		return "ok", unix.Munmap(p.maps[n[0]])
	case "spawn": // fd: a child with it
		return p.spawn(n[0])
	case "end": // pid: a child ends
		err := p.stdin[n[0]]()
		return "ok", errors.Join(err, p.children[n[0]].Wait())
	case "kill": // pid
		err := p.children[n[0]].Process.Kill()
		_ = p.children[n[0]].Wait()
		return "ok", err
	case "stash": // fd: into a socket, and nowhere else
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		p.stash = fds
		return "ok", errors.Join(unix.Sendmsg(fds[0], []byte("x"), unix.UnixRights(n[0]), nil, 0), unix.Close(n[0]))
	case "drop": // what was stashed
		return "ok", errors.Join(unix.Close(p.stash[0]), unix.Close(p.stash[1]))
	case "cloexec": // fd
		flags, err := unix.FcntlInt(uintptr(n[0]), unix.F_GETFD, 0)
		return flags & unix.FD_CLOEXEC, err
	case "getfl":
		return unix.FcntlInt(uintptr(n[0]), unix.F_GETFL, 0)
	case "exec": // this program again
		return nil, syscall.Exec(os.Args[0], []string{os.Args[0], "again"}, os.Environ())
	case "request": // fd, op, x
		out, _, err := request(n[0], uint64(n[1]), uint64(n[2]))
		return out, err
	case "pid":
		return os.Getpid(), nil
	case "exit":
		os.Exit(n[0])
	case "signal": // itself
		return "ok", unix.Kill(os.Getpid(), unix.Signal(n[0]))
	}
	return nil, errors.New("what is " + what)
}

// spawn starts a child that has the descriptor, and outlives this process as long
// as its input, which others may hold, is open.
func (p *puppetState) spawn(fd int) (int, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = environment("holder")
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "device")}
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	p.children[cmd.Process.Pid] = cmd
	p.stdin[cmd.Process.Pid] = in.Close
	return cmd.Process.Pid, nil
}
