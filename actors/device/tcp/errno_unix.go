//go:build unix

package tcp

import (
	"errors"
	"syscall"
)

// Errors of the system's that mean something here.
const (
	connRefused = syscall.ECONNREFUSED
	connReset   = syscall.ECONNRESET
	brokenPipe  = syscall.EPIPE
	timedOut    = syscall.ETIMEDOUT
	inUse       = syscall.EADDRINUSE
)

// unreachable are those of a peer that can't be reached from here, now.
var unreachable = []error{
	syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL, syscall.EACCES, syscall.EPERM, syscall.EINVAL,
	syscall.ENETDOWN, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
}

// noDescriptors reports whether err says that there is no descriptor for a socket.
func noDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
