//go:build !linux || netpoll

package tcp

import (
	"net"
	"net/netip"
)

// family is the name of the address family of an address' sockets, for package net.
func (a address) family() string {
	if AddrOf(a.gid).Is4() {
		return "tcp4"
	}
	return "tcp6"
}

func (a address) addrPort() netip.AddrPort { return netip.AddrPortFrom(AddrOf(a.gid), a.qpn) }

// addressAt converts an address of package net.
func addressAt(a net.Addr) address {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return address{}
	}
	ip := t.AddrPort()
	return address{GIDOf(ip.Addr().Unmap()), ip.Port()}
}
