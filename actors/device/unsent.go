package device

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrUnsent is wrapped by the error of PostSend if a system call of this side failed before anything was
// sent: there was no descriptor, memory or local port, say. The peer has seen nothing. The next request tries
// again.
var ErrUnsent = errors.New("a system call of this side failed")

// UnsentError is such an error.
type UnsentError struct {
	What string // that could not be done
	Err  error  // of the system
}

// Unsent makes an UnsentError.
func Unsent(err error, format string, args ...any) error {
	return &UnsentError{What: fmt.Sprintf(format, args...), Err: err}
}

// Error says what the system has said, and what to do.
func (e *UnsentError) Error() string {
	return e.What + ": " + e.Err.Error() + advice(e.Err)
}

// Unwrap gives the system's error.
func (e *UnsentError) Unwrap() []error { return []error{ErrUnsent, e.Err} }

// advice is what a user can do against an error of the system's, if that is known.
func advice(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return "; the process has used up its descriptors: raise its limit (ulimit -n), or close some, and try again"
	case errors.Is(err, syscall.ENFILE):
		return "; the system has used up its descriptors: raise fs.file-max (sysctl), or end programs, and try again"
	case errors.Is(err, syscall.ENOMEM):
		return "; free memory, or raise vm.max_map_count (sysctl) if the process has that many mappings, and try again"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; local ports are used up: raise net.ipv4.ip_local_port_range (sysctl), or close connections, and try again"
	case errors.Is(err, syscall.ENOBUFS):
		return "; the system has used up its memory for sockets: close connections, and try again"
	case errors.Is(err, syscall.ENOSPC):
		return "; the user has used up what epoll may watch: raise fs.epoll.max_user_watches (sysctl), and try again"
	default:
		return ""
	}
}
