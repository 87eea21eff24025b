//go:build linux && (amd64 || arm64)

package trap

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// starter describes a process to start from this same executable, in a role.
type starter struct {
	role string
	args []string
	std  [3]*os.File
	env  []string
	give []int // descriptors for the role, which becomes the owner of copies
	attr syscall.SysProcAttr
}

// start starts the process. The descriptors that this process was started with
// (process managers pass some by number) keep their numbers; those of give get the
// first free ones behind, whose numbers are the role's first arguments.
func (s *starter) start() (pid int, err error) {
	files := []uintptr{s.std[0].Fd(), s.std[1].Fd(), s.std[2].Fd()}
	fds, err := inherited()
	if err != nil {
		return 0, err
	}
	for fd := 3; len(fds) > 0; fd++ {
		if fds[0] == fd {
			files, fds = append(files, uintptr(fd)), fds[1:]
		} else {
			files = append(files, ^uintptr(0))
		}
	}
	argv := []string{s.role}
	for _, fd := range s.give {
		argv = append(argv, strconv.Itoa(len(files)))
		files = append(files, uintptr(fd))
	}
	pid, err = syscall.ForkExec("/proc/self/exe", append(argv, s.args...),
		&syscall.ProcAttr{Env: s.env, Files: files, Sys: &s.attr})
	if err != nil {
		return 0, fmt.Errorf("trap: start: %w", err)
	}
	return pid, nil
}

// inherited are the descriptors from 3 on, in order, that this process passes on
// to the programs it starts.
func inherited() ([]int, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, fmt.Errorf("trap: %w", err)
	}
	var open []bool
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		for len(open) <= fd {
			open = append(open, false)
		}
		open[fd] = true
	}
	var fds []int
	for fd, is := range open {
		if is {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// take takes over the descriptors that a role was given.
func take(args []string, n int) (fds []int, rest []string, err error) {
	if len(args) < n {
		return nil, nil, fmt.Errorf("trap: arguments of a role: %q", args)
	}
	for _, a := range args[:n] {
		fd, err := strconv.Atoi(a)
		if err != nil {
			return nil, nil, fmt.Errorf("trap: arguments of a role: %w", err)
		}
		unix.CloseOnExec(fd)
		fds = append(fds, fd)
	}
	return fds, args[n:], nil
}
