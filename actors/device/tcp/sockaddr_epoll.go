//go:build linux && !netpoll

package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// family is the address family of an address' sockets.
func family(a address) int {
	if AddrOf(a.gid).Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// sockaddr converts an address for the kernel.
func sockaddr(a address) unix.Sockaddr {
	ip := AddrOf(a.gid)
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.qpn), Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.qpn), Addr: ip.As16()}
}

// addressOf converts an address from the kernel.
func addressOf(sa unix.Sockaddr) address {
	switch s := sa.(type) {
	case *unix.SockaddrInet4:
		var a address
		a.gid[10], a.gid[11] = 0xff, 0xff
		copy(a.gid[12:], s.Addr[:])
		a.qpn = uint16(s.Port)
		return a
	case *unix.SockaddrInet6:
		return address{device.GID(s.Addr), uint16(s.Port)}
	default:
		return address{}
	}
}

// nearOf is a socket's own address.
func nearOf(s socket) (address, error) {
	sa, err := unix.Getsockname(s)
	if err != nil {
		return address{}, err
	}
	return addressOf(sa), nil
}

// isOver reports whether the other side was seen to have ended a connection.
func isOver(s socket) bool {
	info, err := unix.GetsockoptTCPInfo(s, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || info.State != established
}
