package errno

import "syscall"

// Windows has no such numbers; these are Linux's, which a peer understands. The syscall package
// invents others, too large for libfabric's.
const (
	enoent        = 2
	eio           = 5
	eagain        = 11
	enomem        = 12
	eacces        = 13
	ebusy         = 16
	einval        = 22
	enomsg        = 42
	enodata       = 61
	emsgsize      = 90
	eopnotsupp    = 95
	eaddrnotavail = 99
	econnaborted  = 103
	enotconn      = 107
	enobufs       = 105
	etimedout     = 110
	ehostunreach  = 113
	ealready      = 114
	ecanceled     = 125
	eshutdown     = 108
	remoteIO      = 121
)

var systems = map[Errno]syscall.Errno{
	enoent:        syscall.ENOENT,
	eio:           syscall.EIO,
	eagain:        syscall.EAGAIN,
	enomem:        syscall.ENOMEM,
	eacces:        syscall.EACCES,
	ebusy:         syscall.EBUSY,
	einval:        syscall.EINVAL,
	enomsg:        syscall.ENOMSG,
	enodata:       syscall.ENODATA,
	emsgsize:      syscall.EMSGSIZE,
	eopnotsupp:    syscall.EOPNOTSUPP,
	eaddrnotavail: syscall.EADDRNOTAVAIL,
	econnaborted:  syscall.ECONNABORTED,
	enotconn:      syscall.ENOTCONN,
	enobufs:       syscall.ENOBUFS,
	etimedout:     syscall.ETIMEDOUT,
	ehostunreach:  syscall.EHOSTUNREACH,
	ealready:      syscall.EALREADY,
	ecanceled:     syscall.ECANCELED,
	eshutdown:     syscall.ESHUTDOWN,
	remoteIO:      syscall.EREMOTEIO,
}

// system returns the syscall package's number for a POSIX one, or EINVAL for one that is not
// used here.
func system(e Errno) syscall.Errno {
	if n, ok := systems[e]; ok {
		return n
	}
	return syscall.EINVAL
}
