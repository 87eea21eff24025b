//go:build linux

package trap

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawStat is stat(2) as old C libraries call it.
func rawStat(path *byte, st *unix.Stat_t) error {
	_, _, errno := unix.Syscall(unix.SYS_STAT, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(st)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
