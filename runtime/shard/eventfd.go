package shard

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eventFD is a descriptor that any goroutine may make readable, also while
// another one closes it.
type eventFD struct {
	fd     int
	users  atomic.Int32
	closed atomic.Bool
}

func (e *eventFD) open() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("shard: eventfd: %w", err)
	}
	e.fd = fd
	return nil
}

// signal makes the descriptor readable. false: it is closed. The raw system call
// can't block and, being short, needn't tell the Go scheduler.
func (e *eventFD) signal() bool {
	e.users.Add(1)
	defer e.users.Add(-1)
	if e.closed.Load() {
		return false
	}
	one := uint64(1)
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(e.fd), uintptr(unsafe.Pointer(&one)), 8)
		if errno != unix.EINTR {
			return true // EAGAIN: the counter is full, so it is readable
		}
	}
}

// drain makes the descriptor unreadable again.
func (e *eventFD) drain() {
	var n uint64
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(e.fd), uintptr(unsafe.Pointer(&n)), 8)
}

// seal makes further calls of signal fail and waits for those under way, so that
// none of them writes to a descriptor that has become another's.
func (e *eventFD) seal() {
	e.closed.Store(true)
	for e.users.Load() != 0 {
		runtime.Gosched()
	}
}

func (e *eventFD) close() {
	e.seal()
	_ = unix.Close(e.fd)
}
