package efa

import (
	"crypto/tls"
	"net/netip"
	"time"
)

// TCPConfig says how the devices "tcp" and "auto" use sockets. The zero value binds to
// the loopback interface and reaches the processes of this user on this host alone.
type TCPConfig struct {
	// Addr is the address of this host that others reach, and the endpoints' GID. The
	// zero Addr: loopback, or with a Secret, a TLS or Insecure one of the host's own, as
	// the log says. A device name with an address ("tcp:10.0.0.7") has the last word.
	Addr netip.Addr
	// Secret is shared by all processes of a job, at least 16 bytes, random: mutual TLS
	// with certificates that follow from it.
	Secret []byte
	// TLS is used instead of Secret: it needs Certificates, RootCAs and ClientCAs. Each
	// certificate must name the address that its owner states.
	TLS *tls.Config
	// Insecure allows an address other than loopback without Secret and TLS: anybody
	// who reaches it can read and change what is sent.
	Insecure bool
	// AnyLocalUser lets processes of all users of this host connect on loopback without
	// Secret and TLS. Otherwise these must be of the same user: the system is asked.
	AnyLocalUser bool
	// Timeout is how long a connection may be silent before it counts as dead; 0: the
	// device's default.
	Timeout time.Duration
}

// private reports whether the device does not leave this host.
func (c *TCPConfig) private() bool {
	return c.Addr.IsLoopback() || !c.Addr.IsValid() && c.TLS == nil && len(c.Secret) == 0 && !c.Insecure
}
