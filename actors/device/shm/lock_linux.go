package shm

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// Liveness is a lock on the whole of a segment file, held from before the segment
// has a name. It belongs to the open file (an OFD lock), so the kernel drops it
// when the process ends, however it ends, and two devices of one process see each
// other's. Testing the lock does not take it, so tests do not disturb each other.

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart} }

// sweepers is the lock of a process that removes a dead one's file. It excludes all others, and
// its length tells it from an owner's, which has no end.
func sweepers() *unix.Flock_t {
	l := wholeFile()
	l.Len = 1 << 62
	return l
}

// tryLock takes fd's lock as its owner, unless another open file has it.
func tryLock(fd int) (bool, error) { return try(fd, wholeFile()) }

// trySweep takes fd's lock to remove the file, unless another open file has it.
func trySweep(fd int) (bool, error) { return try(fd, sweepers()) }

func try(fd int, l *unix.Flock_t) (bool, error) {
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// lockedByOther reports whether another open file has the lock as its owner. An error counts
// as yes: it must not declare a process dead.
func lockedByOther(fd int) bool {
	l := wholeFile()
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, l)
	return err != nil || l.Type != unix.F_UNLCK && l.Len == 0
}
