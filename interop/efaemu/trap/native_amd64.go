//go:build linux

package trap

import "golang.org/x/sys/unix"

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
