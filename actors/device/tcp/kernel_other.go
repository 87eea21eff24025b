//go:build !linux

package tcp

import "net"

// unackedOf is how many bytes a socket has taken that the other host has not acknowledged, which
// not every system says.
func unackedOf(net.Conn) int { return 0 }

// hasEnded reports whether the other side was seen to have ended a connection, before what came
// earlier was read, which not every system says.
func hasEnded(net.Conn) bool { return false }
