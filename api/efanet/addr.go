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

// givable is an error if the address of an endpoint that this host alone can reach is to be given out to
// others: it would be of no use to them, and is not for them to know.
func givable(a efa.Address, at net.Addr) error {
	if tcp, ok := at.(*net.TCPAddr); !ok || tcp.IP.IsLoopback() {
		return nil
	}
	for path := range strings.SplitSeq(a.String(), ";") {
		scheme, _, _ := strings.Cut(path, "://")
		raw, _ := a.Raw(scheme)
		switch scheme {
		case "shm", "sim":
		case "tcp":
			if !netip.AddrFrom16(raw.GID()).Unmap().IsLoopback() {
				return nil
			}
		default:
			return nil
		}
	}
	return fmt.Errorf("%w: other hosts can dial %v, but not reach the endpoint: listen at 127.0.0.1 or localhost, "+
		"or give Setup.Fabric.TCP a Secret or TLS", efa.ErrInvalid, at)
}
