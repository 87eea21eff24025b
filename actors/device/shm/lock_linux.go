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

// tryLock takes fd's lock unless another open file has it.
func tryLock(fd int) (bool, error) {
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, wholeFile())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// lockedByOther reports whether another open file has the lock. An error counts as
// yes: it must not declare a process dead.
func lockedByOther(fd int) bool {
	l := wholeFile()
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, l)
	return err != nil || l.Type != unix.F_UNLCK
}
