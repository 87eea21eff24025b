//go:build unix && !linux

package sys

import (
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
