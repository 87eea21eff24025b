//go:build linux

package trap

import "golang.org/x/sys/unix"

// nativeArch is the architecture word of 64-bit calls. x32 has it too, with a bit
// in the number that makes it none of those below.
const nativeArch = unix.AUDIT_ARCH_X86_64

// calls are those that go to the supervisor with any arguments.
var calls = map[uint32]handler{
	unix.SYS_OPEN:       (*supervisor).open,
	unix.SYS_OPENAT:     (*supervisor).openat,
	unix.SYS_OPENAT2:    (*supervisor).openat2,
	unix.SYS_STAT:       (*supervisor).stat,
	unix.SYS_LSTAT:      (*supervisor).stat,
	unix.SYS_FSTAT:      (*supervisor).fstat,
	unix.SYS_NEWFSTATAT: (*supervisor).fstatat,
	unix.SYS_STATX:      (*supervisor).statx,
}
