//go:build !windows

package errno

import "syscall"

// The numbers are the system's own.
const (
	enoent        = syscall.ENOENT
	eio           = syscall.EIO
	eagain        = syscall.EAGAIN
	enomem        = syscall.ENOMEM
	eacces        = syscall.EACCES
	ebusy         = syscall.EBUSY
	einval        = syscall.EINVAL
	enomsg        = syscall.ENOMSG
	enodata       = syscall.ENODATA
	emsgsize      = syscall.EMSGSIZE
	eopnotsupp    = syscall.EOPNOTSUPP
	eaddrnotavail = syscall.EADDRNOTAVAIL
	econnaborted  = syscall.ECONNABORTED
	enotconn      = syscall.ENOTCONN
	enobufs       = syscall.ENOBUFS
	etimedout     = syscall.ETIMEDOUT
	ehostunreach  = syscall.EHOSTUNREACH
	ealready      = syscall.EALREADY
	ecanceled     = syscall.ECANCELED
	eshutdown     = syscall.ESHUTDOWN
)

// system returns the system's number for a POSIX one.
func system(e Errno) syscall.Errno { return syscall.Errno(e) }
