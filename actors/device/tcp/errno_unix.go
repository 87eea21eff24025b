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

// shortages are those of a connection that this side lacks something for, now: descriptors, memory,
// ports, places in epoll.
var shortages = []error{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EAGAIN, syscall.ENOSPC,
}

// passing reports whether an error of accept is of the connection that waited, and the next one may be
// accepted at once (accept(2)).
func passing(err error) bool {
	for _, e := range [...]error{
		syscall.EINTR, syscall.ECONNABORTED, syscall.EPROTO, syscall.ENOPROTOOPT, syscall.ENETDOWN, syscall.ENETUNREACH,
		syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// noDescriptors reports whether err says that there is no descriptor for a socket.
func noDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
