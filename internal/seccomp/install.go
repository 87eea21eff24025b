//go:build linux && (amd64 || arm64)

package seccomp

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flags are those of every filter. WAIT_KILLABLE_RECV: without it a signal takes
// a call back that is already being served, and the kernel makes it once more.
const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// InstallOnThread puts a filter on the calling thread, for good, and returns the
// listener.
func InstallOnThread(prog []unix.SockFilter) (listener int, err error) {
	return install(prog, flags)
}

// InstallOnProcess puts a filter on all threads of this process and returns the listener.
func InstallOnProcess(prog []unix.SockFilter) (listener int, err error) {
	return install(prog, flags|unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH)
}

func install(prog []unix.SockFilter, flags uintptr) (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// Check reports whether the kernel has what this package needs. It offers the kernel a
// filter at a null address: EFAULT says that it would have taken another.
func Check() error {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
	if errno != unix.EFAULT {
		if errno == unix.EINVAL {
			return errors.New("the kernel lacks it")
		}
		return fmt.Errorf("seccomp: %w", errno)
	}
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	if _, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("seccomp: notification: %w", errno)
	}
	var sizes struct{ notif, resp, data uint16 }
	if _, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes))); errno != 0 {
		return fmt.Errorf("seccomp: sizes: %w", errno)
	}
	if int(sizes.notif) > int(unsafe.Sizeof(Notification{})) || int(sizes.resp) > int(unsafe.Sizeof(Response{})) {
		return fmt.Errorf("seccomp: the kernel's notifications have %d and %d bytes", sizes.notif, sizes.resp)
	}
	return nil
}
