//go:build linux && (amd64 || arm64)

package seccomp

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of a listener that x/sys does not have for each architecture; they are
// the same on all with the generic layout of _IOC.
const (
	ioctlAddFD    = 0x40182103
	ioctlIDValid  = 0x40082102
	ioctlSetFlags = 0x40082104
)

// Notification is struct seccomp_notif with its struct seccomp_data.
type Notification struct {
	ID    uint64
	TID   uint32 // of the thread, seen from here
	Flags uint32
	NR    uint32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// Response is struct seccomp_notif_resp.
type Response struct {
	ID    uint64
	Val   int64
	Err   int32
	Flags uint32
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	id      uint64
	flags   uint32
	src     uint32
	to      uint32
	toFlags uint32
}

// Listener is the supervisor's end of a filter.
type Listener int

func (l Listener) ioctl(request uintptr, arg unsafe.Pointer) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), request, uintptr(arg))
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// SyncWakeUp informs the kernel that a call and its answer are one hand-over each
// way (Linux 6.6): 5 instead of 20 us. Older kernels refuse it, which does no harm.
func (l Listener) SyncWakeUp() {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(l), ioctlSetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

// ErrNoTargets says that no process has the filter any more.
var ErrNoTargets = errors.New("seccomp: no process is left")

// Receive waits for the next call. It polls first: RECV says ENOENT both when a
// call was given up meanwhile, and for ever once there are no processes.
func (l Listener) Receive(n *Notification) error {
	fds := [1]unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds[:], -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case fds[0].Revents&unix.POLLIN == 0: // POLLHUP, POLLERR, POLLNVAL
			return ErrNoTargets
		}
		*n = Notification{} // or the kernel says EINVAL
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n)))
		switch errno {
		case 0:
			return nil
		case unix.ENOENT, unix.EINTR:
		default:
			return errno
		}
	}
}

// Send answers a call. It does not matter if the thread has died meanwhile.
func (l Listener) Send(r Response) {
	_, _ = l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// Valid reports whether the call's thread still waits: then what was read of it by
// its number was not another's.
func (l Listener) Valid(id uint64) bool {
	_, err := l.ioctl(ioctlIDValid, unsafe.Pointer(&id))
	return err == nil
}

// Add copies fd into the call's process and returns its number there. The
// kernel could answer the call by the same request (SECCOMP_ADDFD_FLAG_SEND), but if a
// signal, such as the Go scheduler's, interrupts that request, it answers without the
// descriptor: the program gets 0 for one. Two requests do: a call that is served no
// longer heeds signals (WAIT_KILLABLE_RECV), so that none comes between them.
func (l Listener) Add(id uint64, fd int, cloexec bool) (int, error) {
	a := addFD{id: id, src: uint32(fd)}
	if cloexec {
		a.toFlags = unix.O_CLOEXEC
	}
	return l.ioctl(ioctlAddFD, unsafe.Pointer(&a))
}
