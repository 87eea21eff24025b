package tcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// errBusy is returned by Close while queue pairs are open.
var errBusy = errors.New("tcp: queue pairs are open")

// attachment is a device: an address of this host.
type attachment struct {
	device.Base
	cfg      Config
	gid      device.GID
	regions  *nic.Regions
	stats    counters
	keyGuard keyGuard

	mu     sync.Mutex
	ports  map[*port]struct{}
	closed bool
}

var (
	_ device.Device = (*attachment)(nil)
	_ Counter       = (*attachment)(nil)
)

// Open attaches to the network of an address of this host.
func Open(cfg Config) (device.Device, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &attachment{
		cfg: cfg, gid: GIDOf(cfg.Addr), regions: nic.NewRegions(nic.RegionsConfig{Key: nic.LongKeys()}),
		keyGuard: keyGuard{clock: cfg.Clock},
		ports:    make(map[*port]struct{}),
	}, nil
}

// Info implements device.Device.
func (a *attachment) Info() device.Info {
	return device.Info{
		Name: "tcp:" + a.cfg.Addr.String(), GID: a.gid, MTU: a.cfg.MTU,
		MaxSQ: maxDepth, MaxRQ: maxDepth, MaxQP: maxQP, MaxMR: nic.DefaultMaxRegions,
		CopiesAtPost: true, MaxPieces: nic.MaxPieces, MaxRDMAPieces: 1, Datagram: true,
		RDMARead: true, RDMAWrite: true, MaxRDMA: maxRDMA, Windows: true, Plain: true, HoldsBack: true,
		MinRead: minRead, MinReadWrite: minRead,
	}
}

// Stats implements Counter.
func (a *attachment) Stats() Stats { return a.stats.read() }

// Reaches implements device.Device: it reaches hosts with an address of our family, and loopback
// from loopback alone. Link-local ones, which EFA's GIDs are, need an interface.
func (a *attachment) Reaches(gid device.GID) bool {
	ip := AddrOf(gid)
	return !ip.IsUnspecified() && !ip.IsMulticast() && !(ip.Is6() && ip.IsLinkLocalUnicast()) &&
		ip.Is4() == a.cfg.Addr.Is4() && ip.IsLoopback() == a.cfg.Addr.IsLoopback()
}

func (a *attachment) stride() int { return (a.cfg.MTU + 63) &^ 63 }

// OpenQP implements device.Device.
func (a *attachment) OpenQP(c device.QPConfig) (device.QP, error) {
	if err := device.Check(a.Info(), c); err != nil {
		return nil, err
	}
	if err := nic.SetDepths(&c, a.Info(), DefaultDepth, ErrConfig); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, device.ErrClosed
	case len(a.ports) >= maxQP:
		return nil, fmt.Errorf("%w: %d queue pairs are open", device.ErrNoMemory, maxQP)
	}
	p, recv, err := a.newPort(c.RQDepth, c)
	if err != nil {
		return nil, advise(err)
	}
	q, err := nic.New(nic.Config{
		Carrier: p, Clock: a.cfg.Clock, QPN: p.self.qpn, Depth: c.SQDepth,
		RNRRetry: c.RNRRetry, Resent: c.Resent, RNRDelay: a.cfg.RNRDelay, MTU: a.cfg.MTU, CopiesAtPost: true,
		RDMARead: true, RDMAWrite: true, MaxRDMA: maxRDMA,
		Slots: c.RQDepth, Recv: recv, Stride: a.stride(), Regions: a.regions, Windows: a.regions, Plain: a.regions, Holder: holder{p}, Explainer: &p.refusals,
		Datagram: c.Type == device.UD, Place: c.Place,
	})
	if err != nil {
		p.closeAll()
		return nil, err
	}
	if c.Place != nil {
		p.place = q.Place
	}
	a.ports[p] = struct{}{}
	return q, nil
}

func (a *attachment) dropPort(p *port) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.ports, p)
}

// Register implements device.Device.
func (a *attachment) Register(mem []byte, access device.Access) (device.MR, error) {
	return a.regions.Register(mem, access)
}

// Alloc implements device.Device.
func (a *attachment) Alloc(n int, access device.Access) (device.MR, error) {
	return a.regions.Alloc(n, access)
}

// Close implements device.Device.
func (a *attachment) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return device.ErrClosed
	}
	if n := len(a.ports); n > 0 {
		return fmt.Errorf("%w: %d", errBusy, n)
	}
	if err := a.regions.Close(); err != nil {
		return err
	}
	a.closed = true
	return nil
}

// Stats counts the events on a device's connections.
type Stats struct {
	Accepted   uint64 // connections of others
	Refused    uint64 // of them, refused: wrong place, mtu, version...
	Strangers  uint64 // of them, without a valid preamble
	Impostors  uint64 // connections that did not vouch for the address they stated
	Crowded    uint64 // times there were too many connections
	Untrusted  uint64 // connections, dialed or accepted, whose TLS handshake failed
	OtherUsers uint64 // connections whose other side was not known to be our user
	Guesses    uint64 // keys that others named and that are not, nor lately were, any here
	SentAway   uint64 // peers whose sessions ended because of wrong keys
	Broken     uint64 // sessions that ended without a bye
	Violations uint64 // sessions that ended because of an impossible frame
	Gone       uint64 // queue pairs that were found to be gone
}

// Counter is implemented by the devices of Open beside device.Device.
type Counter interface {
	Stats() Stats
}

type counters struct {
	accepted, refused, strangers, impostors, crowded, untrusted, otherUsers, guesses, sentAway, broken, violations, gone atomic.Uint64
}

func (c *counters) read() Stats {
	return Stats{
		Accepted: c.accepted.Load(), Refused: c.refused.Load(), Strangers: c.strangers.Load(),
		Impostors: c.impostors.Load(), Crowded: c.crowded.Load(), Untrusted: c.untrusted.Load(),
		OtherUsers: c.otherUsers.Load(), Guesses: c.guesses.Load(), SentAway: c.sentAway.Load(), Broken: c.broken.Load(),
		Violations: c.violations.Load(), Gone: c.gone.Load(),
	}
}

// rateLimitedLog limits what is logged of events that other hosts can cause at will: no more than a few per
// second are written, and the next one says how many were dropped.
type rateLimitedLog struct {
	log   *slog.Logger
	clock clock.Clock

	since   clock.Time // when the present second began
	written int        // in it
	dropped int        // dropped since the last that was written
}

// maxLogged is how many are written per second.
const maxLogged = 5

func (c *rateLimitedLog) warn(msg string, args ...any) { c.say(slog.LevelWarn, msg, args) }

func (c *rateLimitedLog) info(msg string, args ...any) { c.say(slog.LevelInfo, msg, args) }

func (c *rateLimitedLog) say(level slog.Level, msg string, args []any) {
	if now := c.clock.Now(); now.Sub(c.since) >= time.Second {
		c.since, c.written = now, 0
	}
	if c.written == maxLogged {
		c.dropped++
		return
	}
	c.written++
	if c.dropped > 0 {
		args = append(args, "more of these or others", c.dropped)
		c.dropped = 0
	}
	c.log.Log(context.Background(), level, msg, args...)
}
