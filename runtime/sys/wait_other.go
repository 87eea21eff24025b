//go:build unix && !linux

package sys

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Ppoll waits until one of fds is ready, or for ts at most, rounded up to milliseconds;
// nil: for ever. It returns how many are ready.
func Ppoll(fds []PollFd, ts *Timespec) (int, error) {
	if ts == nil {
		return unix.Poll(fds, -1)
	}
	ms := (time.Duration(ts.Nano()) + time.Millisecond - 1) / time.Millisecond
	return unix.Poll(fds, int(ms))
}

// Yield lets another thread of this CPU run.
func Yield() { runtime.Gosched() }

// OpenEvent returns the two ends of an event: those of a pipe here.
func OpenEvent() (r, w int, err error) {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return -1, -1, err
	}
	for _, fd := range p {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			return -1, -1, errors.Join(err, unix.Close(p[0]), unix.Close(p[1]))
		}
	}
	return p[0], p[1], nil
}

// SignalEvent makes the read end readable.
func SignalEvent(w int) {
	for {
		_, err := unix.Write(w, []byte{1})
		if !errors.Is(err, unix.EINTR) {
			return // EAGAIN: the pipe is full, so it is readable
		}
	}
}

// DrainEvent makes the read end unreadable again.
func DrainEvent(r int) {
	var b [64]byte
	for {
		n, err := unix.Read(r, b[:])
		if n <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
