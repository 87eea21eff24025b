package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ppoll waits until one of fds is ready, or for ts at most; nil: for ever. It returns how
// many are ready.
func Ppoll(fds []PollFd, ts *Timespec) (int, error) { return unix.Ppoll(fds, ts, nil) }

// Yield lets another thread of this CPU run, without the Go scheduler.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// OpenEvent returns the two ends of an event, which are one descriptor here: an eventfd.
func OpenEvent() (r, w int, err error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return fd, fd, err
}

// SignalEvent makes the read end readable. The raw system call cannot block and, being
// short, need not tell the Go scheduler.
func SignalEvent(w int) {
	one := uint64(1)
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(w), uintptr(unsafe.Pointer(&one)), 8)
		if errno != unix.EINTR {
			return // EAGAIN: the counter is full, so it is readable
		}
	}
}

// DrainEvent makes the read end unreadable again.
func DrainEvent(r int) {
	var n uint64
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(r), uintptr(unsafe.Pointer(&n)), 8)
}

// OpenGate returns a descriptor that is readable while one of those is that were added to it.
func OpenGate() (int, error) { return unix.EpollCreate1(unix.EPOLL_CLOEXEC) }

// AddToGate adds fd to gate.
func AddToGate(gate, fd int) { controlGate(gate, unix.EPOLL_CTL_ADD, fd) }

// TakeFromGate takes fd out of gate again, unless it was closed meanwhile.
func TakeFromGate(gate, fd int) { controlGate(gate, unix.EPOLL_CTL_DEL, fd) }

// controlGate is short, as SignalEvent is.
func controlGate(gate, op, fd int) {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	_, _, _ = unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(gate), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&e)), 0, 0)
}
