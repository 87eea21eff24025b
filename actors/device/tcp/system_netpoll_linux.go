//go:build netpoll

package tcp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unackedOf is how many bytes a socket has taken that the other host has not acknowledged.
func unackedOf(c net.Conn) (n int) {
	onFD(c, func(fd int) {
		if k, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err == nil {
			n = k
		}
	})
	return n
}

// hasEnded reports whether the other side was seen to have ended a connection, though what came
// before was not read.
func hasEnded(c net.Conn) (over bool) {
	onFD(c, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		over = err != nil || info.State != established
	})
	return over
}

func onFD(c net.Conn, f func(fd int)) {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}
