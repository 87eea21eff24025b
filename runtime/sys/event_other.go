//go:build unix && !linux

package sys

import (
	"errors"

	"golang.org/x/sys/unix"
)

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
