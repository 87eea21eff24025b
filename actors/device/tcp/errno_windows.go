package tcp

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Errors of the system's that mean something here.
const (
	connRefused = windows.WSAECONNREFUSED
	connReset   = windows.WSAECONNRESET
	brokenPipe  = windows.WSAECONNABORTED
	timedOut    = windows.WSAETIMEDOUT
	inUse       = windows.WSAEADDRINUSE
)

// unreachable are those of a peer that can't be reached from here, now.
var unreachable = []error{
	windows.WSAENETUNREACH, windows.WSAEHOSTUNREACH, windows.WSAEADDRNOTAVAIL, windows.WSAEACCES, windows.WSAEINVAL,
	windows.WSAENETDOWN, windows.WSAEMFILE, windows.WSAENOBUFS,
}

// shortages are those of a connection that this side lacks something for, now: descriptors, memory,
// ports.
var shortages = []error{windows.WSAEMFILE, windows.WSAENOBUFS, windows.WSAEADDRNOTAVAIL}

// passing reports whether an error of accept is of the connection that waited, and the next one may be
// accepted at once.
func passing(err error) bool {
	return errors.Is(err, windows.WSAECONNRESET) || errors.Is(err, windows.WSAECONNABORTED) || errors.Is(err, windows.WSAEINTR)
}

// noDescriptors reports whether err says that there is no descriptor for a socket.
func noDescriptors(err error) bool { return errors.Is(err, windows.WSAEMFILE) }
