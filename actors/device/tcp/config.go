package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// Limits and defaults of the driver.
const (
	DefaultMTU     = 8760
	DefaultDepth   = 256
	DefaultLanes   = 1
	DefaultTimeout = 10 * time.Second
	DefaultMaxConn = 4096

	minMTU     = 64
	maxMTU     = 1<<16 - 1
	maxDepth   = 8192
	maxQP      = 1024
	maxLanes   = 8
	minTimeout = 50 * time.Millisecond

	// maxRDMA bounds one RDMA request, and thereby the time for which others wait
	// behind it. Larger ones are no faster (BenchmarkRead).
	maxRDMA = 256 << 10

	// minRead is the size from which a message is read from where it lies instead of
	// sent: on loopback (go test -bench Cross) in 86 us instead of 69 to 115 for 128
	// KiB, and 136 instead of 157 for 256 KiB, less the protocol's work for each of 30
	// packets.
	minRead = 128 << 10
)

// Errors of Open and OpenQP beside those of package device.
var (
	// ErrConfig: a Config or QPConfig makes no sense.
	ErrConfig = errors.New("tcp: bad configuration")
	// ErrInsecure: other hosts could connect, and the connections are not
	// protected.
	ErrInsecure = errors.New("tcp: without credentials only loopback is allowed (Config.Insecure)")
)

// Config describes the attachment to a network. The zero value attaches to this
// host alone.
type Config struct {
	// Addr is the address of this host on which queue pairs listen and which is
	// their GID; no wildcard. Zero: 127.0.0.1.
	Addr netip.Addr

	// MTU is the fabric's, in bytes, 64 to 65535; 0: DefaultMTU. Peers with another
	// one are refused.
	MTU int

	// Lanes is the number of connections for RDMA that a session has beside the one
	// for packets, up to 8; 0: DefaultLanes. The dialing side's value counts.
	Lanes int

	// Timeout bounds how long a cut, half-open or stalled connection goes unnoticed
	// while something is outstanding, and how long setting one up may take; at least
	// 50 ms. 0: what device.QPConfig's Silence says, which is PeerTimeout, or DefaultTimeout. A
	// Silence that is shorter than Timeout takes precedence.
	Timeout time.Duration

	// MaxConn bounds the accepted connections of a queue pair that belong to sessions; a few
	// more have not identified themselves, the oldest of which are closed to make room. 0:
	// DefaultMaxConn.
	MaxConn int

	// RNRDelay is the time before the first device resend; it doubles for the
	// following ones. 0: nic.DefaultRNRDelay.
	RNRDelay time.Duration

	// Credentials secure the connections. nil: they are not secured, and Addr must
	// be a loopback address unless Insecure.
	Credentials Credentials

	// Insecure allows unprotected connections between hosts: any process that
	// reaches a port can read, forge and write to memory.
	Insecure bool

	// AnyLocalUser allows unprotected connections on loopback with processes of other users
	// of this host, too. Otherwise the system is asked whose the other side's socket is.
	AnyLocalUser bool

	// Clock times device resends and timeouts. nil: clock.System.
	Clock clock.Clock

	// Logger gets messages for operators; nil: there are none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if !c.Addr.IsValid() {
		c.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	c.Addr = c.Addr.Unmap()
	c.MTU = cmp.Or(c.MTU, DefaultMTU)
	c.Lanes = cmp.Or(c.Lanes, DefaultLanes)
	c.MaxConn = cmp.Or(c.MaxConn, DefaultMaxConn)
	c.Clock = cmp.Or(c.Clock, clock.System)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// silence is the timeout of a queue pair: an owner that waits for a peer no longer than that is not kept
// waiting by a connection.
func (c *Config) silence(owner time.Duration) time.Duration {
	switch {
	case owner == 0:
		return cmp.Or(c.Timeout, DefaultTimeout)
	case c.Timeout == 0:
		return max(owner, minTimeout)
	default:
		return max(min(owner, c.Timeout), minTimeout)
	}
}

func (c Config) validate() error {
	switch {
	case c.Addr.IsUnspecified() || c.Addr.IsMulticast() || c.Addr.Zone() != "":
		return fmt.Errorf("%w: address %v", ErrConfig, c.Addr)
	case c.MTU < minMTU || c.MTU > maxMTU:
		return fmt.Errorf("%w: mtu %d is not in [%d, %d]", ErrConfig, c.MTU, minMTU, maxMTU)
	case c.Lanes < 0 || c.Lanes > maxLanes:
		return fmt.Errorf("%w: %d lanes", ErrConfig, c.Lanes)
	case c.Timeout != 0 && c.Timeout < minTimeout:
		return fmt.Errorf("%w: timeout %v", ErrConfig, c.Timeout)
	case c.MaxConn < 1:
		return fmt.Errorf("%w: %d connections", ErrConfig, c.MaxConn)
	case c.RNRDelay < 0:
		return fmt.Errorf("%w: rnr delay %v", ErrConfig, c.RNRDelay)
	case c.Credentials == nil && !c.Insecure && !c.Addr.IsLoopback():
		return fmt.Errorf("%w: %v", ErrInsecure, c.Addr)
	}
	return nil
}

// GIDOf is the GID of a host: its address, IPv4-mapped if need be.
func GIDOf(a netip.Addr) device.GID { return device.GID(a.As16()) }

// AddrOf returns the address that a GID holds.
func AddrOf(g device.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }

// errImpostor: the dialing side claims an address that is not its own.
var errImpostor = errors.New("tcp: the other side is not who it says to be")
