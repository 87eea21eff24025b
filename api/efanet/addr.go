package efanet

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/efactor/efactor/api/efa"
)

// Addr is the address of a listener, or of either side of a connection. Its text is what [Dial]
// takes: that of an [efa.Address], or the host:port at which the listener gives its own out.
type Addr struct{ text string }

// Network is "efa".
func (a Addr) Network() string { return network }

// String is the text.
func (a Addr) String() string { return a.text }

// isText reports whether an address is the text of an efa.Address, which no host:port can be.
func isText(addr string) bool { return strings.Contains(addr, "://") }

// deviceFor is the device that reaches an address, or listens there, by default.
func deviceFor(addr string) (string, error) {
	if addr == "" {
		return "shm", nil
	}
	if isText(addr) {
		for path := range strings.SplitSeq(addr, ";") {
			if !strings.HasPrefix(path, "shm://") {
				return "auto", nil
			}
		}
		return "shm", nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%w: %q is neither an efa.Address nor host:port: %w", efa.ErrInvalid, addr, err)
	}
	if ip, err := netip.ParseAddr(host); err == nil && !ip.IsLoopback() && !ip.IsUnspecified() {
		return "auto:" + host, nil
	}
	return "auto", nil
}
