package efa

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/wire"
)

// Device is an attachment to a fabric, from one of the drivers: see [OpenDevice].
type Device = device.Device

// Config says on what device to open a Fabric.
type Config struct {
	// Device carries the traffic; nil: DeviceName says which one to open. A device that
	// was given is not closed with the Fabric.
	Device Device
	// DeviceName is as OpenDevice has it, used if Device is nil; "" means "shm".
	DeviceName string
	// TCP is for the devices "tcp" and "auto".
	TCP TCPConfig
	// Logger gets warnings, at level Info which devices "auto" has opened and why, at
	// level Debug the device of each peer; nil: slog.Default gets the warnings.
	Logger *slog.Logger
	// Telemetry has the providers of OpenTelemetry, if there are to be traces and
	// metrics.
	Telemetry Telemetry
}

// Setup says what OpenEndpoint makes. Its zero value works.
type Setup struct {
	Fabric Config
	Domain DomainConfig
	// Endpoint may leave out both queues: then there is one for all that is posted.
	Endpoint EndpointConfig
}

// OpenEndpoint makes an endpoint and all that it needs, and enables it: a Fabric, a
// Domain, an AddressVector and a Queue, which are its own. [Endpoint.Close] closes them
// with it; memory regions that were made of the Domain, and further endpoints on it, must
// be closed before. The zero Setup is shared memory between the processes of this host.
func OpenEndpoint(ctx context.Context, s Setup) (*Endpoint, error) {
	o := &owned{}
	ep, err := o.open(ctx, s)
	if err != nil {
		return nil, errtext.Join(err, o.close())
	}
	ep.owned = o
	return ep, nil
}

// owned is what is closed with an endpoint, as far as it was made.
type owned struct {
	ep    *Endpoint
	av    *AddressVector
	queue *Queue
	dom   *Domain
	fab   *Fabric
}

func (o *owned) open(ctx context.Context, s Setup) (*Endpoint, error) {
	var err error
	if o.fab, err = Open(s.Fabric); err != nil {
		return nil, err
	}
	if o.dom, err = o.fab.OpenDomain(s.Domain); err != nil {
		return nil, err
	}
	cfg := s.Endpoint
	if cfg.AV == nil {
		o.av = o.dom.NewAddressVector()
		cfg.AV = o.av
	}
	if cfg.SendQueue == nil && cfg.RecvQueue == nil {
		if o.queue, err = o.dom.NewQueue(0); err != nil {
			return nil, err
		}
		cfg.SendQueue, cfg.RecvQueue = o.queue, o.queue
	}
	if o.ep, err = o.dom.NewEndpoint(cfg); err != nil {
		return nil, err
	}
	return o.ep, o.ep.Enable(ctx)
}

// close closes what there is; again, if something was still in use.
func (o *owned) close() error {
	var errs []error
	if o.ep != nil {
		errs = append(errs, o.ep.end(context.Background()))
	}
	if o.av != nil {
		errs = append(errs, o.av.Close())
	}
	if o.queue != nil {
		errs = append(errs, o.queue.Close())
	}
	if o.dom != nil {
		errs = append(errs, o.dom.Close())
	}
	if o.fab != nil {
		errs = append(errs, o.fab.Close())
	}
	return errtext.Join(errs...)
}

// Fabric is an open device (fi_fabric).
type Fabric struct {
	dev     Device
	own     bool
	paths   []fabricPath // best first
	twins   bool         // several of them are of one kind
	choices []DeviceChoice
	log     *slog.Logger
	tele    *telemetry.Collector // nil: nothing is observed

	regions, registered atomic.Int64 // memory regions, open and ever

	mu      sync.Mutex
	domains users[*Domain]
}

// Open opens a Fabric. The zero Config is the shared memory of this host.
func Open(cfg Config) (_ *Fabric, err error) {
	defer formed("open", &err)
	f := &Fabric{dev: cfg.Device, log: cfg.Logger}
	f.domains.init(&f.mu, "the fabric is closed")
	if f.log == nil {
		f.log = defaultLog()
	}
	if f.dev == nil {
		dev, choices, err := cfg.open(f.log)
		if err != nil {
			return nil, err
		}
		f.dev, f.own, f.choices = dev, true, choices
	} else {
		f.choices = []DeviceChoice{{f.dev.Info().Name, true, "it was given"}}
	}
	f.paths = pathsOf(f.dev)
	f.twins = twins(f.paths)
	if err := f.observe(&cfg.Telemetry); err != nil {
		if f.own {
			_ = f.dev.Close() // the first error says what is wrong
		}
		return nil, err
	}
	return f, nil
}

// Name is the device's.
func (f *Fabric) Name() string { return f.dev.Info().Name }

// Devices says which devices the Fabric is on, best first, which it might have been on,
// and why: what an operator wants to know of "auto".
func (f *Fabric) Devices() []DeviceChoice { return slices.Clone(f.choices) }

// Close fails with ErrBusy while domains are open. It closes the device unless
// Config gave it.
func (f *Fabric) Close() (err error) {
	defer formed("close", &err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.domains.list); n > 0 {
		return fmt.Errorf("%w: %d domains of the fabric are open", ErrBusy, n)
	}
	if f.domains.closed {
		return nil
	}
	f.domains.closed = true
	err = f.tele.Shutdown()
	if f.own {
		err = errtext.Join(err, f.dev.Close())
	}
	return err
}

// fabricPath is one of the devices that a Fabric is on.
type fabricPath struct {
	scheme string // of addresses on it
	name   string
	gid    device.GID
	dev    Device
}

// pathsOf lists the devices that dev joins, or dev alone.
func pathsOf(dev Device) []fabricPath {
	parts := dev.Devices()
	if parts == nil {
		parts = []Device{dev}
	}
	paths := make([]fabricPath, len(parts))
	for i, d := range parts {
		info := d.Info()
		paths[i] = fabricPath{scheme: info.Kind(), name: info.Name, gid: info.GID, dev: d}
	}
	return paths
}

// isLocal reports whether gid, of an address on the path, is this host's.
func (p *fabricPath) isLocal(gid device.GID) bool {
	return p.gid == gid || p.scheme == sharedMemory && p.dev.Reaches(gid)
}

// isLocal reports whether an address is of this host.
func (f *Fabric) isLocal(a Address) bool {
	for i := range f.paths {
		for _, x := range a.paths {
			if p := &f.paths[i]; x.scheme == p.scheme && p.isLocal(x.raw.GID()) {
				return true
			}
		}
	}
	return false
}

// reaches reports whether the path may lead to gid. A device that is alone is not asked:
// there is nothing to choose.
func (f *Fabric) reaches(p *fabricPath, gid device.GID) bool {
	return len(f.paths) == 1 || p.dev.Reaches(gid)
}

// choose picks the path to an address: that on the first of our devices which has one
// and reaches it. The other side, which has the same order, picks the same.
func (f *Fabric) choose(a Address, want *AddressVectorConfig) (raw RawAddr, path int, err error) {
	if a.IsZero() {
		return raw, 0, fmt.Errorf("%w: the zero Address, as of an endpoint that is not enabled", ErrAddrNotAvail)
	}
	named, barred := false, want.RemoteOnly && f.isLocal(a)
	for i := range f.paths {
		p := &f.paths[i]
		for _, x := range a.paths {
			if x.scheme != p.scheme {
				continue
			}
			gid := x.raw.GID()
			if gid == (device.GID{}) {
				return raw, 0, fmt.Errorf("%w: the GID of %q is zero", ErrAddrNotAvail, a)
			}
			if named = true; !barred && want.allows(p, gid) && f.reaches(p, gid) {
				return x.raw, i, nil
			}
		}
	}
	if named && *want != (AddressVectorConfig{}) {
		return raw, 0, fmt.Errorf("%w: %q is out of the reach of %s, or of what the address vector is for", ErrAddrNotAvail, a, f.dev.Info().Name)
	}
	if named {
		return raw, 0, fmt.Errorf("%w: %q is out of the reach of %s", ErrAddrNotAvail, a, f.dev.Info().Name)
	}
	return raw, 0, fmt.Errorf("%w: %q has no path on a %s device", ErrAddrNotAvail, a, strings.Join(f.schemes(), " or "))
}

// chose writes down which path an address in the vector has got.
func (f *Fabric) chose(h Addr, name string, a Address, path int) {
	if len(f.paths) == 1 || !f.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	why := "the first device that reaches it"
	if path == len(f.paths)-1 {
		why = "no other device reaches it"
	}
	args := []any{"peer", uint64(h), "address", a, "device", f.paths[path].name, "why", why}
	if name != "" {
		args = append(args, "name", name)
	}
	f.log.Debug("efa: device for a peer", args...)
}

func (f *Fabric) schemes() []string {
	ss := make([]string, len(f.paths))
	for i := range f.paths {
		ss[i] = f.paths[i].scheme
	}
	return ss
}

// addressOf makes an address of a raw one whose device is not known: it is on that which
// reaches it, and Insert picks the same that the sender has picked.
func (f *Fabric) addressOf(raw wire.RawAddr) Address {
	var a Address
	for _, s := range f.schemes() {
		if _, ok := a.Raw(s); !ok {
			a.paths = append(a.paths, path{s, raw})
		}
	}
	return a
}

// warnings is the handler of a Fabric without a Logger: a program that asked for nothing hears
// of what is wrong.
type warnings struct{ slog.Handler }

func defaultLog() *slog.Logger { return slog.New(warnings{slog.Default().Handler()}) }

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs(as []slog.Attr) slog.Handler { return warnings{w.Handler.WithAttrs(as)} }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
