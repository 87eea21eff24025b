//go:build !linux

package errno

import "syscall"

// remoteIO is Linux's number, where the system has none.
const remoteIO = syscall.Errno(121)
