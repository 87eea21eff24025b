//go:build linux

package trap

import "golang.org/x/sys/unix"

// nativeArch is the architecture word of 64-bit calls.
const nativeArch = unix.AUDIT_ARCH_AARCH64

// calls are those that go to the supervisor with any arguments.
var calls = map[uint32]handler{
	unix.SYS_OPENAT:  (*supervisor).openat,
	unix.SYS_OPENAT2: (*supervisor).openat2,
	unix.SYS_FSTAT:   (*supervisor).fstat,
	unix.SYS_FSTATAT: (*supervisor).fstatat,
	unix.SYS_STATX:   (*supervisor).statx,
}
