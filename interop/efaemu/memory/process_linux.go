package memory

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/sys"
)

// process is the memory of a process by its number.
type process struct {
	pid  int
	gone atomic.Bool // stays so, even if the number is reused
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

// transfer moves all of p. The kernel stops at the first inaccessible page, and
// returns how far it came; a second call from there returns the reason.
func (s *process) transfer(p []byte, addr uint64, write bool) error {
	if uint64(uintptr(addr)) != addr || addr+uint64(len(p)) < addr {
		return ErrFault
	}
	for len(p) > 0 {
		if s.gone.Load() {
			return ErrGone
		}
		var n int
		var err error
		if write {
			n, err = sys.WriteProcess(s.pid, p, addr)
		} else {
			n, err = sys.ReadProcess(s.pid, p, addr)
		}
		switch {
		case err == nil && n > 0:
			p, addr = p[n:], addr+uint64(n)
		case errors.Is(err, unix.ESRCH):
			s.gone.Store(true)
			return ErrGone
		case err == nil, errors.Is(err, unix.EFAULT):
			return ErrFault
		default: // EPERM: a process that we must not look at
			return fmt.Errorf("%w: process %d: %w", ErrFault, s.pid, err)
		}
	}
	return nil
}
