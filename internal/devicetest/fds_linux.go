package devicetest

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// pollFDs waits until one of fds is readable or ctx ends.
func pollFDs(ctx context.Context, fds []int) error {
	set := make([]unix.PollFd, len(fds))
	for i, fd := range fds {
		set[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	for ctx.Err() == nil {
		n, err := unix.Poll(set, 100) // milliseconds, then look at ctx
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return ctx.Err()
}
