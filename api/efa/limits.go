package efa

import (
	"math"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/api/efa/amo"
)

// Limits are what a domain's device grants (fi_domain_attr, fi_ep_attr). All are maxima
// that a call may reach and not exceed: beyond them it fails with an error that names the
// field, and nothing is made smaller silently. It is a value without references.
type Limits struct {
	Device     string
	Caps       Caps // what endpoints can do and be the target of
	MTU        int  // bytes of a packet
	MaxMessage int  // bytes of a message
	MaxInject  int  // bytes of an injected message
	MaxMedium  int  // bytes up to which a message goes without flow control
	MaxAtomic  int  // bytes of operand and comparand of an atomic

	// CQData is the bytes of remote CQ data (cq_data_size). CQDataDirect is what a write by
	// the devices themselves carries, a message to a queue pair that receives into its user's
	// buffers (libfabric 1.22 to 2.5 without the application's headers) and everything of a
	// Direct endpoint: a write with more goes by packets, the others are refused.
	CQData, CQDataDirect int

	MaxEndpoints int // endpoints that are enabled at a time, on all domains of the device
	MaxRegions   int // memory regions at a time, those that endpoints make for themselves among them
	KeySize      int // bytes of a region's key, that of Remote.Raw (mr_key_size)
	MaxSQ        int // ProtocolConfig.SendQueue
	MaxRQ        int // ProtocolConfig.RecvQueue
	MaxOps       int // TxDepth and RxDepth
	MaxQueue     int // depth of a Queue
	IOV          int // pieces of a request's own memory: IOVLimit (iov_limit)
	RMAIOV       int // pieces of a peer's memory that a WriteReq or ReadReq names: RMAIOVLimit (rma_iov_limit)

	// Order is what EndpointConfig.Order may ask for. Without it messages and atomics are in the
	// order of the calls, and nothing else is.
	Order Order

	// RDMARead, RDMAWrite: the device reads and writes peers' memory by
	// itself, at most MaxRDMA bytes at a time. MinRead and MinReadWrite are the
	// defaults of ProtocolConfig on it.
	RDMARead, RDMAWrite   bool
	MaxRDMA               int
	MinRead, MinReadWrite int
}

// Limits says what may be asked for. Where the fabric has several devices it is what holds on
// all of them.
func (d *Domain) Limits() Limits { return limitsOf(d.fab.dev.Info()) }

func limitsOf(i device.Info) Limits {
	p := settings.InForce{}.On(&i)
	return Limits{
		Device: i.Name, Caps: capsAll | CapDirected | CapSource,
		MTU: i.MTU, MaxMessage: math.MaxInt, MaxInject: maxInject(i.MTU), MaxMedium: p.MaxMedium,
		MaxAtomic: maxAtomic(i.MTU), CQData: 8, CQDataDirect: directData,
		MaxEndpoints: limit(i.MaxQP), MaxRegions: limit(i.MaxMR), KeySize: 8,
		MaxSQ: limit(i.MaxSQ), MaxRQ: limit(i.MaxRQ), MaxOps: ope.MaxOps, MaxQueue: maxDepth,
		IOV: IOVLimit, RMAIOV: RMAIOVLimit, Order: settings.AllOrders,
		RDMARead: i.RDMARead, RDMAWrite: i.RDMAWrite, MaxRDMA: i.MaxRDMA, MinRead: p.MinRead, MinReadWrite: p.MinReadWrite,
	}
}

// directData is the bytes of an immediate.
const directData = 4

// limit is a device's limit; 0 is none.
func limit(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}

// QueryAtomic reports whether there is the operation on elements of type t in a form,
// and how many elements it takes at most (fi_query_atomic).
func (d *Domain) QueryAtomic(op amo.Op, t amo.Type, form amo.Form) (most int, ok bool) {
	if !atomics.Valid(op, t, form) {
		return 0, false
	}
	return atomics.Count(t, form, maxAtomic(d.fab.dev.Info().MTU)), true
}

// maxAtomic is the most bytes of operand and comparand.
func maxAtomic(mtu int) int { return max(ope.MaxAtomic(mtu), 0) }
