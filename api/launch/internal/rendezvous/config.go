package rendezvous

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/runtime/clock"
)

// Config identifies this process and the place where rank 0 waits.
type Config struct {
	Rank, Size int
	Job        string // others of another name are not ours
	Addr       string // host:port
	// Listener is where rank 0 waits, if it need not be opened. It is closed.
	Listener net.Listener
	// Server and Client are for TLS on both sides; nil: plain connections.
	Server, Client *tls.Config
	// Insecure allows plain connections beyond this host.
	Insecure bool
	Logger   *slog.Logger
	// Left, if not nil, is asked before each attempt to meet rank 0: an error ends them.
	Left func() error

	linger time.Duration       // 0: byeTime
	greet  time.Duration       // 0: greetTime
	clock  clock.Clock         // nil: the system's
	near   func(net.Conn) bool // whether the other side is on this host; nil: near
}

// Times that do not depend on the caller's.
const (
	greetTime = 10 * time.Second // for TLS and HELLO
	writeTime = 10 * time.Second // for a frame to be taken
	byeTime   = 2 * time.Second  // for others to say BYE, or to get the reason of a failure
	dialTime  = 5 * time.Second  // for one attempt
	lateTime  = 2 * time.Second  // for the hub to name the missing ranks
	leastLate = lateTime / 4     // for any deadline
)

// keepAlive finds out about hosts that are gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}

func (cfg *Config) check() error {
	if cfg.clock == nil {
		cfg.clock = clock.System
	}
	if cfg.greet == 0 {
		cfg.greet = greetTime
	}
	if cfg.near == nil {
		cfg.near = near
	}
	if cfg.linger == 0 {
		cfg.linger = byeTime
	}
	switch {
	case cfg.Size < 1 || cfg.Rank < 0 || cfg.Rank >= cfg.Size:
		return board.Failed(cfg.Rank, board.Mistake, "rank %d of %d", cfg.Rank, cfg.Size)
	case len(cfg.Job) > maxJob:
		return fmt.Errorf("rendezvous: job name of %d bytes, at most %d", len(cfg.Job), maxJob)
	case (cfg.Server == nil) != (cfg.Client == nil):
		return fmt.Errorf("rendezvous: TLS in one direction only")
	}
	return nil
}

// ErrNotLocal is the error of a rendezvous on another host without TLS, which Insecure
// did not allow.
var ErrNotLocal = fmt.Errorf("rendezvous: not on this host, and there is neither a job secret nor leave to do without (EFACTOR_INSECURE=1)")

// beyond reports whether plain connections may leave this host.
func (cfg *Config) beyond() bool { return cfg.Server != nil || cfg.Insecure }

// control refuses sockets to other hosts, if they must not be. It sees addresses after
// names were resolved.
func (cfg *Config) control(_, address string, c syscall.RawConn) error {
	if cfg.beyond() || loopback(address) {
		return boundSilence(c)
	}
	return fmt.Errorf("%w: %s", ErrNotLocal, address)
}

// near reports whether the other side of a connection has an address of this host.
func near(conn net.Conn) bool {
	it := addrOf(conn.RemoteAddr())
	if it.IsLoopback() {
		return true
	}
	ours, _ := net.InterfaceAddrs() // without them it counts as far away
	return slices.ContainsFunc(ours, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == it.WithZone("")
	})
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}
