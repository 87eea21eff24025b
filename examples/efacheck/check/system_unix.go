//go:build unix

package check

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// kernel returns the release of the running kernel, or a question mark.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "?"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// readable waits until a descriptor is readable, for d at most, and returns how many are.
func readable(descriptors []int, d time.Duration) (int, error) {
	var fds []unix.PollFd
	for _, fd := range descriptors {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for {
		n, err := unix.Poll(fds, int(d.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
