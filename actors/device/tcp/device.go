package tcp

import (
	"errors"
	"fmt"
	"sync"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// errBusy is returned by Close while queue pairs are open.
var errBusy = errors.New("tcp: queue pairs are open")

// attachment is a device: an address of this host.
type attachment struct {
	device.Base
	cfg     Config
	gid     device.GID
	regions *nic.Regions
	stats   counters
	wards   wards

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
		wards: wards{clock: cfg.Clock},
		ports: make(map[*port]struct{}),
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
	if c.SQDepth == 0 {
		c.SQDepth = DefaultDepth
	}
	if c.RQDepth == 0 {
		c.RQDepth = DefaultDepth
	}
	if c.SQDepth < 0 || c.SQDepth > maxDepth || c.RQDepth < 0 || c.RQDepth > maxDepth {
		return nil, fmt.Errorf("%w: queues of %d and %d", ErrConfig, c.SQDepth, c.RQDepth)
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
		RNRRetry: c.RNRRetry, RNRDelay: a.cfg.RNRDelay, MTU: a.cfg.MTU, CopiesAtPost: true,
		RDMARead: true, RDMAWrite: true, MaxRDMA: maxRDMA,
		Slots: c.RQDepth, Recv: recv, Stride: a.stride(), Regions: a.regions, Windows: a.regions, Plain: a.regions, Holder: holder{p}, Explainer: &p.refusals,
		Datagram: c.Type == device.UD,
	})
	if err != nil {
		p.closeAll()
		return nil, err
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
