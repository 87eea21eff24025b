package sim

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// Defaults of Config and device.QPConfig.
const (
	DefaultMTU          = 8760
	DefaultDepth        = 256
	DefaultMaxDepth     = 4096
	DefaultMaxQP        = 256
	DefaultWindow       = 8
	DefaultUnresponsive = 5 * time.Millisecond
	DefaultMaxRDMA      = 1 << 30
)

// ErrConfig is returned for a Config that makes no sense.
var ErrConfig = errors.New("sim: bad configuration")

// Config describes a fabric. The zero value is a shuffled fabric in real time.
type Config struct {
	Seed    uint64
	Virtual bool // single goroutine, own clock, driven by Step
	MTU     int  // bytes; 0: DefaultMTU

	// InOrder delivers by due time and then in the order of sending. Otherwise
	// the order of simultaneous deliveries comes from the seed.
	InOrder bool
	// Window is how many packets a shuffled fabric in real time holds back while an
	// owner is busy. 0: DefaultWindow.
	Window int

	// A packet is in flight for Delay and a seeded part of Jitter.
	Delay, Jitter time.Duration

	// CopyLate reads the bytes of a send when it arrives, as a DMA engine may:
	// Info.CopiesAtPost is false, and a caller that changes a buffer before the
	// completion sends garbage. Virtual only.
	CopyLate bool

	// Unresponsive is the time after which a send to a vanished or unknown GID
	// ends. 0: DefaultUnresponsive.
	Unresponsive time.Duration
	// ReportGone yields OpGone to every queue pair when a device is killed, and when a queue
	// pair is closed.
	ReportGone bool
	// RNRDelay is nic.Config's.
	RNRDelay time.Duration

	MaxSQ, MaxRQ int // limits of queue depths; 0: DefaultMaxDepth
	MaxQP        int // queue pairs of a device; 0: DefaultMaxQP

	Rules []Rule      // as if added by AddRule
	Hook  func(Event) // called for every event, one call at a time; may be nil

	// Clock is the time of a fabric that is not virtual. nil: clock.System.
	Clock clock.Clock
}

func (c *Config) setDefaults() error {
	c.MTU = cmp.Or(c.MTU, DefaultMTU)
	c.Window = cmp.Or(c.Window, DefaultWindow)
	c.MaxSQ = cmp.Or(c.MaxSQ, DefaultMaxDepth)
	c.MaxRQ = cmp.Or(c.MaxRQ, DefaultMaxDepth)
	c.MaxQP = cmp.Or(c.MaxQP, DefaultMaxQP)
	c.Unresponsive = cmp.Or(c.Unresponsive, DefaultUnresponsive)
	c.Clock = cmp.Or(c.Clock, clock.System)
	switch {
	case c.MTU < 64 || c.MTU > 1<<20:
		return fmt.Errorf("%w: mtu %d", ErrConfig, c.MTU)
	case c.Window < 0 || c.Delay < 0 || c.Jitter < 0 || c.Unresponsive < 0 || c.RNRDelay < 0:
		return fmt.Errorf("%w: negative window or time", ErrConfig)
	case c.MaxSQ < 1 || c.MaxRQ < 1 || c.MaxQP < 1:
		return fmt.Errorf("%w: limits below 1", ErrConfig)
	case c.CopyLate && !c.Virtual:
		return fmt.Errorf("%w: CopyLate without Virtual", ErrConfig)
	}
	return nil
}

// DeviceConfig describes a device to OpenDevice; the zero value is valid.
type DeviceConfig struct {
	Name string // empty: "sim" and a number
	// GID of the port. The zero GID takes the next free one. Devices that
	// give the same GID share a port, like processes of one host.
	GID device.GID
	// Net is the network of the port. Ports of different networks do not reach each
	// other, so one fabric can hold several networks with one clock and one seed.
	Net int
	// RDMARead, RDMAWrite, LocalKeys and UnsolicitedWrite are device.Info's, for
	// both roles: a request that the other device does not know, or a write with
	// immediate between two that differ in UnsolicitedWrite, ends with
	// StatusMismatch.
	RDMARead, RDMAWrite         bool
	LocalKeys, UnsolicitedWrite bool
	// NoWindows: there are no memory windows, as on EFA. Otherwise a device with RDMARead
	// has them.
	NoWindows bool
	// Gathers and MinRegister are device.Info's, as EFA has them: with Gathers, virtual only,
	// a payload that names its region is read when it arrives.
	Gathers     bool
	MinRegister int
	// NoHoldBack: no sender is held back alone, as on EFA.
	NoHoldBack bool
	// MaxRDMA is device.Info's. 0: DefaultMaxRDMA.
	MaxRDMA int
	// MaxRegions is how many regions may be open. 0: nic.DefaultMaxRegions.
	MaxRegions int
	// MaxMedium, MinRead and MinReadWrite are device.Info's.
	MaxMedium, MinRead, MinReadWrite int
}
