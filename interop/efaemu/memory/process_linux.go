package memory

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// process is the memory of a process by its number.
type process struct {
	pid  int
	gone atomic.Bool // stays so, whoever gets the number next
}

// Process is the memory of the process pid, which lives now.
func Process(pid int) Space { return &process{pid: pid} }

// Self is the memory of this process.
func Self() Space { return Process(os.Getpid()) }

// PID implements Space.
func (s *process) PID() int { return s.pid }

// ReadAt implements Space.
func (s *process) ReadAt(p []byte, addr uint64) error {
	return s.transfer(p, addr, false)
}

// WriteAt implements Space.
func (s *process) WriteAt(p []byte, addr uint64) error {
	return s.transfer(p, addr, true)
}

// transfer moves all of p. The kernel stops at the first page that it cannot
// have, and says how far it came; going on from there tells why.
func (s *process) transfer(p []byte, addr uint64, write bool) error {
	if uint64(uintptr(addr)) != addr || addr+uint64(len(p)) < addr {
		return ErrFault
	}
	for len(p) > 0 {
		if s.gone.Load() {
			return ErrGone
		}
		local := [1]unix.Iovec{{Base: &p[0]}}
		local[0].SetLen(len(p))
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}
		var n int
		var err error
		if write { // called by name, so that nothing is allocated
			n, err = unix.ProcessVMWritev(s.pid, local[:], remote[:], 0)
		} else {
			n, err = unix.ProcessVMReadv(s.pid, local[:], remote[:], 0)
		}
		switch {
		case err == nil && n > 0:
			p, addr = p[n:], addr+uint64(n)
		case errors.Is(err, unix.ESRCH):
			s.gone.Store(true)
			return ErrGone
		case errors.Is(err, unix.EINTR): // nothing was moved
		case err == nil, errors.Is(err, unix.EFAULT):
			return ErrFault
		default: // EPERM: a process that we must not look at
			return fmt.Errorf("%w: process %d: %w", ErrFault, s.pid, err)
		}
	}
	return nil
}
