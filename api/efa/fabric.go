package efa

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/internal/errtext"
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
	domains int
	closed  bool
}

// Open opens a Fabric. The zero Config is the shared memory of this host.
func Open(cfg Config) (_ *Fabric, err error) {
	defer formed("open", &err)
	f := &Fabric{dev: cfg.Device, log: cfg.Logger}
	if f.log == nil {
		f.log = defaultLog()
	}
	if f.dev == nil {
		dev, choices, err := openDevice(&cfg, f.log)
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

// Devices says which devices the Fabric is on, best first, which it might have been on,
// and why: what an operator wants to know of "auto".
func (f *Fabric) Devices() []DeviceChoice { return slices.Clone(f.choices) }

// Close fails with ErrBusy while domains are open. It closes the device unless
// Config gave it.
func (f *Fabric) Close() (err error) {
	defer formed("close", &err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.domains > 0 {
		return fmt.Errorf("%w: %d domains of the fabric are open", ErrBusy, f.domains)
	}
	if f.closed {
		return nil
	}
	f.closed = true
	err = f.tele.Shutdown()
	if f.own {
		err = errtext.Join(err, f.dev.Close())
	}
	return err
}
