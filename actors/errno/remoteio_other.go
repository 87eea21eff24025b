//go:build !linux && !windows

package errno

import "syscall"

// remoteIO is Linux's number, where the system has none.
const remoteIO = syscall.Errno(121)
