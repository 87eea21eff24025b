//go:build unix && !linux

package sys

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// WaitEvent waits until the read end of an event is readable, or for d at most, rounded up to milliseconds; a negative d:
// without limit. It reports whether the end is readable; a signal may end it sooner.
func WaitEvent(r int, d time.Duration) bool {
	ms := -1
	if d >= 0 {
		ms = int((d + time.Millisecond - 1) / time.Millisecond)
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(r), Events: unix.POLLIN}}, ms)
	return err == nil && n > 0
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
