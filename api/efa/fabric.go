package efa

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// Device is an attachment to a fabric, from one of the drivers: see [OpenDevice].
type Device = device.Device

// Config says on what device to open a Fabric.
type Config struct {
	// Device carries the traffic; nil: OpenDevice(DeviceName). A device that
	// was given is not closed with the Fabric.
	Device Device
	// DeviceName is for OpenDevice if Device is nil; "" means "shm".
	DeviceName string
	// Logger gets warnings and what an operator must know; nil: nothing.
	Logger *slog.Logger
	// Telemetry has the providers of OpenTelemetry, if there are to be traces and
	// metrics.
	Telemetry Telemetry
}

// OpenDevice opens a device by name:
//
//	shm          shared memory between processes of one user on this host
//	shm:DIR      the same, meeting in the directory DIR
//	sim          a simulated fabric inside this process, one port of it
//
// After shm or shm:DIR, ?host=NAME gives the device an address as if it were on a host
// of that name: who meets in a directory need not have one GID.
func OpenDevice(name string) (Device, error) { return openDevice(name, nil) }

func openDevice(name string, log *slog.Logger) (Device, error) {
	path, host, named := strings.Cut(name, "?host=")
	driver, arg, _ := strings.Cut(path, ":")
	switch {
	case named && host == "":
		return nil, fmt.Errorf("%w: device %q: host without a name", ErrInvalid, name)
	case driver == "" || driver == "shm":
		cfg := shm.Config{Dir: arg, Logger: log}
		if named {
			cfg.GID = shm.HostGID(host)
		}
		return shm.Open(cfg)
	case driver == "sim" && !named:
		f, err := sim.New(sim.Config{})
		if err != nil {
			return nil, err
		}
		return f.OpenDevice(sim.DeviceConfig{})
	default:
		return nil, fmt.Errorf("%w: device %q: want shm, shm:DIR, either with ?host=NAME, or sim", ErrInvalid, name)
	}
}

// Environment is what a simulated device brings along for those who run on it:
// its own time, and a way to wait in it. Real devices have none.
type Environment interface {
	Clock() clock.Clock
	Waiter() shard.Waiter
	Seed() uint64
	Random() uint32
	// Attach is told of each shard; the environment runs it.
	Attach(*shard.Shard)
}

// Fabric is an open device (fi_fabric).
type Fabric struct {
	dev    Device
	own    bool
	scheme string
	log    *slog.Logger
	tele   *telemetry.Collector // nil: nothing is observed

	regions, registered atomic.Int64 // memory regions, open and ever

	mu      sync.Mutex
	domains int
	closed  bool
}

// Open opens a Fabric. The zero Config is the shared memory of this host.
func Open(cfg Config) (*Fabric, error) {
	f := &Fabric{dev: cfg.Device, log: cfg.Logger}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.dev == nil {
		dev, err := openDevice(cfg.DeviceName, f.log)
		if err != nil {
			return nil, fmt.Errorf("efa: open: %w", err)
		}
		f.dev, f.own = dev, true
	}
	f.scheme = schemeOf(f.dev.Info().Name)
	if err := f.observe(&cfg.Telemetry); err != nil {
		if f.own {
			_ = f.dev.Close() // the first error says what is wrong
		}
		return nil, fmt.Errorf("efa: open: %w", err)
	}
	return f, nil
}

// schemeOf is the kind of a device: the small letters that its name begins with.
func schemeOf(name string) string {
	for i := range len(name) {
		if c := name[i]; c < 'a' || c > 'z' {
			return name[:i]
		}
	}
	return name
}

// enter counts a domain.
func (f *Fabric) enter() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("%w: the fabric is closed", ErrClosed)
	}
	f.domains++
	return nil
}

func (f *Fabric) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.domains--
}

// Name is the device's.
func (f *Fabric) Name() string { return f.dev.Info().Name }

// Close fails with ErrBusy while domains are open. It closes the device unless
// Config gave it.
func (f *Fabric) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.domains > 0 {
		return fmt.Errorf("%w: %d domains of the fabric are open", ErrBusy, f.domains)
	}
	if f.closed {
		return nil
	}
	f.closed = true
	err := f.tele.Shutdown()
	if f.own {
		err = errors.Join(err, f.dev.Close())
	}
	return err
}
