//go:build !linux

package tcp

import (
	"net"
)

// advise adds to an error what to do about it, where that is known.
func advise(err error) error { return err }

// unackedOf is how many bytes a socket has taken that the other host has not acknowledged, which
// not every system says.
func unackedOf(net.Conn) int { return 0 }

// hasEnded reports whether the other side was seen to have ended a connection, before what came
// earlier was read, which not every system says.
func hasEnded(net.Conn) bool { return false }

// socketOwners would say which users sockets of this host belong to. This system is not asked, and so
// nobody gets in without credentials, unless Config.AnyLocalUser.
type socketOwners struct{}

func newSocketOwners() *socketOwners { return &socketOwners{} }

func (*socketOwners) close() {}

func (*socketOwners) of(sockPair) (uid uint32, err error) { return 0, errNoOwners }
