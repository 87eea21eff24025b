package tcp

import "errors"

// sockPair is a connection as the socket at its other end knows it.
type sockPair struct {
	near address // of that socket
	far  address // of ours
}

// Errors of owner.
var (
	// errNoSocket: the system knows no such socket.
	errNoSocket = errors.New("tcp: the other side's socket is not there")
	// errNoOwners: the system does not tell whose sockets are.
	errNoOwners = errors.New("tcp: the system does not say which user is at the other side (give a Secret or TLS, or set AnyLocalUser)")
)
