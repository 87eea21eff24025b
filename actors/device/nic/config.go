package nic

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// Forever is the RNRRetry without a limit.
const Forever = 7

// DefaultRNRDelay is the time before the first device resend.
const DefaultRNRDelay = 10 * time.Microsecond

// maxRNRShift bounds the doubling of the delay between device resends.
const maxRNRShift = 6

// Config describes a queue pair to New. Everything but RNRDelay and what belongs
// to RDMA is required.
type Config struct {
	Carrier Carrier
	Clock   clock.Clock // read only while resends wait

	QPN      uint16
	Depth    int                  // most sends outstanding until polled
	RNRRetry uint8                // resends before StatusRNR; Forever: no end
	Resent   func(*device.SendWR) // device.QPConfig's
	Place    device.Placer        // the same, for carriers that ask by QP.Place

	// RNRDelay is the time before the first resend; it doubles up to 64-fold
	// for the following ones. 0: DefaultRNRDelay.
	RNRDelay time.Duration

	MTU int

	// CopiesAtPost is device.Info's. If true, QP copies what must be sent
	// again; if false it sends again from the caller's memory.
	CopiesAtPost bool

	// RDMARead, RDMAWrite, MaxRDMA, LocalKeys and UnsolicitedWrite are
	// device.Info's. Regions is the table of local keys.
	RDMARead, RDMAWrite bool
	MaxRDMA             int
	LocalKeys           bool
	UnsolicitedWrite    bool
	Regions             *Regions

	// FindsAH is whether the carrier knows the address handles of senders: Poll's OpRecv has AH,
	// or SrcGID if that is UnknownAH.
	FindsAH bool

	// Windows makes windows; nil: device.Info's Windows is false.
	Windows Lender
	// Plain lends what is in no region; nil: device.Info's Plain is false.
	Plain PlainLender

	// Pulser tells who runs; nil: device.Info's Pulse is false.
	Pulser Pulser

	// Holder holds senders back; nil: device.Info's HoldsBack is false.
	Holder Holder

	// Explainer knows why devices are not reached; nil: nobody does.
	Explainer Explainer

	// Slots receive buffers of MTU bytes lie in Recv, Stride bytes apart: Go memory
	// or mapped memory, as the driver chooses.
	Slots  int
	Recv   []byte
	Stride int
	// Datagram is whether device.QPConfig's Type is UD.
	Datagram bool
}

// ErrConfig is returned for a Config that makes no sense.
var ErrConfig = errors.New("nic: bad configuration")

func (c *Config) validate() error {
	switch {
	case c.Carrier == nil || c.Clock == nil:
		return fmt.Errorf("%w: carrier and clock are required", ErrConfig)
	case c.MTU < 1:
		return fmt.Errorf("%w: mtu %d", ErrConfig, c.MTU)
	case c.Depth < 1:
		return fmt.Errorf("%w: send queue of %d", ErrConfig, c.Depth)
	case c.Slots < 1 || c.Stride < c.MTU || len(c.Recv)/c.Stride < c.Slots-1 ||
		len(c.Recv)-(c.Slots-1)*c.Stride < c.MTU:
		return fmt.Errorf("%w: %d slots of %d in %d bytes", ErrConfig, c.Slots, c.Stride, len(c.Recv))
	case c.MaxRDMA < 0 || (c.RDMARead || c.RDMAWrite) && c.MaxRDMA < 1:
		return fmt.Errorf("%w: rdma of %d bytes", ErrConfig, c.MaxRDMA)
	case c.LocalKeys && c.Regions == nil:
		return fmt.Errorf("%w: local keys without regions", ErrConfig)
	case c.RNRRetry > Forever:
		return fmt.Errorf("%w: rnr retry %d", ErrConfig, c.RNRRetry)
	case c.RNRDelay < 0:
		return fmt.Errorf("%w: rnr delay %v", ErrConfig, c.RNRDelay)
	}
	return nil
}

// SetDepths replaces the depths of 0 by depth, or by the device's limit if that is lower, and
// refuses those beyond the limits with an error that wraps refusal.
func SetDepths(c *device.QPConfig, i device.Info, depth int, refusal error) error {
	c.SQDepth, c.RQDepth = cmp.Or(c.SQDepth, min(depth, i.MaxSQ)), cmp.Or(c.RQDepth, min(depth, i.MaxRQ))
	if c.SQDepth < 0 || c.SQDepth > i.MaxSQ || c.RQDepth < 0 || c.RQDepth > i.MaxRQ {
		return fmt.Errorf("%w: queues of %d and %d, at most %d and %d", refusal, c.SQDepth, c.RQDepth, i.MaxSQ, i.MaxRQ)
	}
	return nil
}
