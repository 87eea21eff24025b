package sys

import "golang.org/x/sys/unix"

// Ppoll waits until one of fds is ready, or for ts at most; nil: for ever. It returns how
// many are ready.
func Ppoll(fds []PollFd, ts *Timespec) (int, error) { return unix.Ppoll(fds, ts, nil) }

// Yield lets another thread of this CPU run, without the Go scheduler.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
