//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/faults"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/interop/efaemu/memory"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// Config describes a Device. Engine is required, and Profile must be valid.
type Config struct {
	Engine   *engine.Engine
	Profile  profile.Profile // as profile.For returns it; abilities that Info lacks are left out again
	Info     device.Info
	Findings *finding.Log // nil: findings are dropped
	Faults   *faults.Plan // nil: none; the engine has the same
}

// Task is the thread that made a call.
type Task interface {
	// Space is its memory.
	Space() memory.Space
	// InstallFD adds to the process a descriptor of the same open file as fd.
	InstallFD(fd int, cloexec bool) (int, error)
	// StatFD identifies one of its descriptors. unix.EBADF: it has none of that number.
	StatFD(fd int) (dev, ino uint64, err error)
	// GetFD is a descriptor here of the same open file as one of its. unix.EBADF: it has none.
	GetFD(fd int) (int, error)
	// Maps are its mappings of the device file.
	Maps() ([]Mapping, error)
}

// Mapping is a part of the device file in a task's memory.
type Mapping struct {
	Start, Length, Offset uint64
	Prot                  int // unix.PROT_...
	Shared                bool
}

// Stats are the contexts and objects that live.
type Stats struct {
	Contexts, PDs, MRs, AHs, CQs, QueuePairs int
	Channels, AsyncFiles                     int // descriptors that events go to
	Mapped                                   uint64
}

// Device is an emulated device; any number of processes open it.
type Device struct {
	cfg Config

	mu       sync.Mutex
	contexts map[*Context]struct{}
	live     Stats
	removed  bool

	commands commandCounts
}

// errRemoved: the device was taken away.
var errRemoved = errors.New("kernel: the device was removed")

// New makes a device.
func New(cfg Config) *Device {
	cfg.Profile = cfg.Profile.Within(cfg.Info)
	d := &Device{cfg: cfg, contexts: make(map[*Context]struct{})}
	cfg.Faults.On(d.fault)
	return d
}

// Stats counts the live objects.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live
}

// Open is open(2) of the device file: it makes the memfd, of that name, which is
// handed out for it.
func (d *Device) Open(name string) (*Context, error) {
	a, err := newArena(name)
	if err != nil {
		return nil, fmt.Errorf("kernel: device file: %w", err)
	}
	c := &Context{dev: d, arena: a}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		a.close()
		return nil, errRemoved
	}
	d.contexts[c] = struct{}{}
	d.live.Contexts++
	return c, nil
}

// Remove removes the device: programs with an async file are notified, calls fail
// with EIO from now on, and mappings read as zeros.
func (d *Device) Remove() {
	d.mu.Lock()
	d.removed = true
	d.mu.Unlock()
	for _, c := range d.opened() {
		c.remove()
	}
}

// opened are the contexts that are open now.
func (d *Device) opened() (open []*Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.contexts {
		open = append(open, c)
	}
	return open
}

// take counts one more of something that there may be most of.
func (d *Device) take(live *int, most uint32) unix.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if uint64(*live) >= uint64(most) {
		return unix.ENOMEM // what the driver makes of "resource allocation failure"
	}
	*live++
	return 0
}

// count counts one more.
func (d *Device) count(live *int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*live++
}

// give counts one less.
func (d *Device) give(live *int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*live--
}

// mapped counts bytes of queues and doorbells.
func (d *Device) mapped(n uint64, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if more {
		d.live.Mapped += n
	} else {
		d.live.Mapped -= n
	}
}

// errno is the errno for an error of the engine.
func errno(err error) unix.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, device.ErrNoMemory):
		return unix.ENOMEM
	case errors.Is(err, device.ErrNotSupported):
		return unix.EOPNOTSUPP
	case errors.Is(err, memory.ErrFault), errors.Is(err, memory.ErrGone):
		return unix.EFAULT
	case errors.Is(err, device.ErrClosed):
		return unix.EIO
	default:
		return unix.EINVAL
	}
}
