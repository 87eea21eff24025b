package shm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// errBusy is returned by Close while queue pairs are open.
var errBusy = errors.New("shm: queue pairs are open")

// attachment is a device: a process's attachment to a directory.
type attachment struct {
	device.Base
	cfg       Config
	directory *directory
	watch     *watcher
	mappings  *mappings // regions that are mapped to be copied

	regions     *nic.Regions
	ranges      ranges        // where own regions are mapped
	leaseWait   time.Duration // see leaseWait
	foreignWait time.Duration // see foreignWait
	abandoned   atomic.Uint64 // regions that were closed during a copy

	sealedRegions atomic.Int64

	mu     sync.Mutex
	closed bool
	old    [][]byte // closed queue pairs' memory, see recede
}

// Open attaches to the fabric of a directory and removes the files that dead
// processes have left there.
func Open(cfg Config) (device.Device, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Dir == "" {
		var err error
		if cfg.Dir, err = defaultDir(defaultParent()); err != nil {
			return nil, err
		}
		if err = checkParent(defaultParent()); err != nil {
			cfg.Logger.Warn("shm: other users can keep processes from meeting", "why", err)
		}
	}
	if !cfg.Files && pidSpace() == 0 {
		cfg.Logger.Warn("shm: memory is in files, as of Config.Files: without that, processes of other namespaces are out of reach; "+
			"mount a /proc of this namespace (unshare --mount-proc)", "why", errNumbers)
		cfg.Files = true
	}
	f, err := openDirectory(cfg.Dir)
	if err != nil {
		return nil, err
	}
	f.files = cfg.Files
	if err := f.sweep(cfg.MTU); err != nil {
		return nil, errors.Join(err, f.close())
	}
	switch {
	case cfg.GID != (device.GID{}):
		f.gid = cfg.GID
	case !cfg.Files:
		f.gid = f.gidWithin(pidSpace(), namespace("/proc", "user"), rootCapabilities())
	}
	vs := newMappings(f, cfg.Logger)
	w, err := f.startWatcher(vs)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return &attachment{
		cfg: cfg, directory: f, watch: w, mappings: vs,
		regions: nic.NewRegions(nic.RegionsConfig{Max: maxRegions}), leaseWait: leaseWait, foreignWait: foreignWait,
	}, nil
}

// Info implements device.Device.
func (a *attachment) Info() device.Info {
	return device.Info{
		Name: "shm:" + a.cfg.Dir, GID: a.directory.gid, MTU: a.cfg.MTU,
		MaxSQ: maxDepth, MaxRQ: maxDepth, MaxQP: maxQP, MaxMR: maxRegions,
		CopiesAtPost: true, MaxPieces: nic.MaxPieces, MaxRDMAPieces: 1, Datagram: true, Foreign: true,
		RDMARead: true, RDMAWrite: true, MaxRDMA: maxRDMA, Windows: true, Pulse: true, HoldsBack: true,
		MinRead: minRead, MinReadWrite: minRead,
	}
}

// Reaches implements device.Device: a GID stands for a directory of this host, or
// with Config.GID for a host that the directory simulates.
func (a *attachment) Reaches(gid device.GID) bool { return gid == a.directory.gid }

// Stats implements Counter.
func (a *attachment) Stats() Stats {
	n, err := a.mappings.denials.read()
	return Stats{Abandoned: a.abandoned.Load(), Denied: n, Denial: err}
}

// OpenQP implements device.Device.
func (a *attachment) OpenQP(c device.QPConfig) (device.QP, error) {
	if err := device.Check(a.Info(), c); err != nil {
		return nil, err
	}
	if err := nic.SetDepths(&c, a.Info(), DefaultDepth, ErrConfig); err != nil {
		return nil, err
	}
	g, err := newGeometry(a.cfg.MTU, c.RQDepth)
	if err != nil {
		return nil, err
	}
	p, err := a.addPort(g, c)
	if err != nil {
		return nil, err
	}
	q, err := nic.New(nic.Config{
		Carrier: p, Clock: a.cfg.Clock, QPN: p.self.qpn(), Depth: c.SQDepth,
		RNRRetry: c.RNRRetry, Resent: c.Resent, RNRDelay: a.cfg.RNRDelay, MTU: a.cfg.MTU, CopiesAtPost: true,
		RDMARead: true, RDMAWrite: true, MaxRDMA: maxRDMA, FindsAH: true,
		Slots: g.slots, Recv: p.rx.slot, Stride: g.stride, Windows: p, Pulser: p, Holder: p, Explainer: &p.reason,
		Datagram: c.Type == device.UD,
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return q, nil
}

// addPort makes the segment of a queue pair, unless the device is closed or full.
func (a *attachment) addPort(g geometry, c device.QPConfig) (*port, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, device.ErrClosed
	}
	if a.watch.size() >= maxQP {
		return nil, fmt.Errorf("%w: %d queue pairs are open", device.ErrNoMemory, maxQP)
	}
	return a.newPort(g, c)
}

// Close implements device.Device.
func (a *attachment) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return device.ErrClosed
	}
	if n := a.watch.size(); n > 0 {
		return fmt.Errorf("%w: %d", errBusy, n)
	}
	if err := a.regions.Close(); err != nil {
		return err
	}
	a.closed = true
	a.watch.stop()
	a.mappings.clear()
	errs := []error{a.ranges.close()}
	for _, mem := range a.old {
		errs = append(errs, release(mem))
	}
	return errors.Join(append(errs, a.directory.close())...)
}

// recede keeps the addresses of a closed queue pair's memory valid until the device
// is closed, without memory behind them: a packet that is still being read turns to
// zeroes instead of ending the process.
func (a *attachment) recede(mem []byte) error {
	err := blank(mem)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.old = append(a.old, mem) // even if the memory is still there
	return err
}
