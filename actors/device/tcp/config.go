package tcp

import (
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

	// maxRDMA bounds one RDMA request. Nothing else waits behind it for longer than
	// that takes, and larger ones are no faster (BenchmarkRead).
	maxRDMA = 256 << 10

	// minRead is from which size a message is rather read from where it lies: on
	// loopback (go test -bench Cross) in 86 us instead of 69 to 115 for 128 KiB, and 136
	// instead of 157 for 256 KiB, less what the protocol does for each of 30 packets.
	minRead = 128 << 10
)

// Errors of Open and OpenQP beside those of package device.
var (
	// ErrConfig: a Config or QPConfig makes no sense.
	ErrConfig = errors.New("tcp: bad configuration")
	// ErrInsecure: other hosts could connect, and nothing protects the connections.
	ErrInsecure = errors.New("tcp: without credentials only loopback is allowed (Config.Insecure)")
)

// Config describes the attachment to a network. The zero value is one to this host
// alone.
type Config struct {
	// Addr is the address of this host that queue pairs listen on, and by which
	// others know them; no wildcard. Zero: 127.0.0.1.
	Addr netip.Addr

	// MTU is the fabric's, in bytes, 64 to 65535; 0: DefaultMTU. Who has another one
	// is refused.
	MTU int

	// Lanes are the connections for RDMA that a session has beside the one for
	// packets, up to 8; 0: DefaultLanes. The dialing side's counts.
	Lanes int

	// Timeout bounds how long a cut, half-open or stalled connection goes unnoticed
	// while something is outstanding, and how long setting one up may take; at least
	// 50 ms. 0: DefaultTimeout.
	Timeout time.Duration

	// MaxConn is how many accepted connections a queue pair has at most. Those that
	// have not said who they are give way first. 0: DefaultMaxConn.
	MaxConn int

	// RNRDelay is the time before the first device resend; it doubles for the
	// following ones. 0: nic.DefaultRNRDelay.
	RNRDelay time.Duration

	// Credentials secure the connections. nil: nothing does, and Addr must be a
	// loopback address unless Insecure.
	Credentials Credentials

	// Insecure allows connections between hosts that nothing protects: whoever
	// reaches a port can read, forge and write to memory.
	Insecure bool

	// Clock times device resends and timeouts. nil: clock.System.
	Clock clock.Clock

	// Logger gets what an operator must know; nil: nothing.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if !c.Addr.IsValid() {
		c.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	c.Addr = c.Addr.Unmap()
	if c.MTU == 0 {
		c.MTU = DefaultMTU
	}
	if c.Lanes == 0 {
		c.Lanes = DefaultLanes
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxConn == 0 {
		c.MaxConn = DefaultMaxConn
	}
	if c.Clock == nil {
		c.Clock = clock.System
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Addr.IsUnspecified() || c.Addr.IsMulticast() || c.Addr.Zone() != "":
		return fmt.Errorf("%w: address %v", ErrConfig, c.Addr)
	case c.MTU < minMTU || c.MTU > maxMTU:
		return fmt.Errorf("%w: mtu %d is not in [%d, %d]", ErrConfig, c.MTU, minMTU, maxMTU)
	case c.Lanes < 0 || c.Lanes > maxLanes:
		return fmt.Errorf("%w: %d lanes", ErrConfig, c.Lanes)
	case c.Timeout < minTimeout:
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

// AddrOf is the address that a GID is.
func AddrOf(g device.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }

// errImpostor: who connects says to be somebody else.
var errImpostor = errors.New("tcp: the other side is not who it says to be")
