package shm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// A process's memory is reached by number (process_vm_readv), and the number of one
// that has ended may be given to another. A descriptor of the process tells that it
// has ended, before its number is free. So what was copied while the descriptor is
// silent, until after the copy, came from that process: it is looked at after each
// copy, and before each write as well. Between that look and a write the process
// may still end and its number come around; nothing is known that excludes it.
//
// The kernel decides at each copy whether we may (ptrace_may_access), and whether the
// memory is there and may be read or written. A process that replaces its program
// stays the same: closing the region then is the business of who registered it.

var (
	// errOver: the process has ended.
	errOver = fmt.Errorf("shm: the process has ended: %w", unix.ESRCH)
	// errFault: nothing is mapped there, or not for that.
	errFault = errors.New("shm: bad address")
)

// proc is somebody whose memory regions are views of.
type proc struct {
	id    processID
	fd    int // readable when it has ended
	over  atomic.Bool
	users users
}

// openProcess finds out which process has a number now.
func openProcess(pid int, start func(pid int) (uint64, error)) (*proc, error) {
	if pid <= 0 || pid > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d", errOver, pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, fmt.Errorf("%w: %d", errOver, pid)
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
		return nil, denied(pid, err)
	case err != nil:
		return nil, fmt.Errorf("shm: process %d: %w", pid, err)
	}
	p := &proc{id: processID{pid: uint32(pid), space: pidSpace()}, fd: fd}
	p.users.n.Store(1)
	p.id.start, err = start(pid)
	if p.ended() { // so that may have been another's
		err = fmt.Errorf("%w: %d", errOver, pid)
	} else if err != nil {
		err = denied(pid, err) // one may hide /proc from others
	}
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// findProcess is openProcess for a certain one.
func findProcess(id processID) (*proc, error) {
	p, err := openProcess(int(id.pid), startOf)
	if err == nil && p.id != id {
		p.release()
		return nil, fmt.Errorf("%w: another has its number %d", errOver, id.pid)
	}
	return p, err
}

func (p *proc) release() {
	if p.users.quit() {
		_ = unix.Close(p.fd)
	}
}

// ended asks the descriptor. In doubt the process has.
func (p *proc) ended() bool {
	for !p.over.Load() {
		fds := [1]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds[:], 0)
		if n == 0 && err == nil {
			return false
		}
		if !errors.Is(err, unix.EINTR) {
			p.over.Store(true)
		}
	}
	return true
}

// copy moves len(local) bytes between local and what the process has at addr.
func (p *proc) copy(kind device.WR, local []byte, addr uint64) error {
	if kind == device.WRWrite && p.ended() {
		return errOver
	}
	err := p.move(kind, local, addr)
	if p.ended() {
		return errOver
	}
	return err
}

func (p *proc) move(kind device.WR, local []byte, addr uint64) error {
	if len(local) == 0 {
		return nil
	}
	ours := [1]unix.Iovec{{Base: &local[0]}}
	ours[0].SetLen(len(local))
	theirs := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(local)}}
	for {
		var n int
		var err error
		if kind == device.WRRead {
			n, err = unix.ProcessVMReadv(int(p.id.pid), ours[:], theirs[:], 0)
		} else {
			n, err = unix.ProcessVMWritev(int(p.id.pid), ours[:], theirs[:], 0)
		}
		switch {
		case err == nil && n == len(local):
			return nil
		case err == nil || errors.Is(err, unix.EFAULT): // part of it, or none
			return errFault
		case errors.Is(err, unix.ESRCH): // it is about to
			return errOver
		case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
			return denied(int(p.id.pid), err)
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("shm: memory of process %d: %w", p.id.pid, err)
		}
	}
}

// startOf reads when a process has started: field 22 of its line, of which the second
// is a name in parentheses with whatever in it.
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	line := string(b)
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	const starttime = 22 - 3
	if len(fields) <= starttime {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return strconv.ParseUint(fields[starttime], 10, 64)
}

// pidSpace names the space that process numbers count in here; 0 without /proc.
var pidSpace = sync.OnceValue(func() uint64 {
	st, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	sys, _ := st.Sys().(*syscall.Stat_t)
	if sys == nil {
		return 0
	}
	return sys.Ino
})
