package efa

import (
	"math"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/settings"
)

// Limits are what a domain's device grants (fi_domain_attr, fi_ep_attr). All are maxima
// that a call may reach and not exceed.
type Limits struct {
	Device       string
	MTU          int // bytes of a packet
	MaxMessage   int // bytes of a message
	MaxInject    int // bytes of an injected message
	MaxMedium    int // bytes up to which a message goes without flow control
	MaxAtomic    int // bytes of operand and comparand of an atomic
	CQData       int // bytes of remote CQ data
	MaxEndpoints int // endpoints that are enabled at a time, on all domains of the device
	MaxSQ        int // ProtocolConfig.SendQueue
	MaxRQ        int // ProtocolConfig.RecvQueue
	MaxOps       int // TxDepth and RxDepth
	MaxQueue     int // depth of a Queue
	IOV          int // pieces of a request's own memory: IOVLimit
	RMAIOV       int // pieces of a peer's memory that a WriteReq or ReadReq names: RMAIOVLimit

	// RDMARead, RDMAWrite: the device reads and writes peers' memory by
	// itself, at most MaxRDMA bytes at a time. MinRead and MinReadWrite are the
	// defaults of ProtocolConfig on it.
	RDMARead, RDMAWrite   bool
	MaxRDMA               int
	MinRead, MinReadWrite int
}

// Limits tells what may be asked for.
func (d *Domain) Limits() Limits { return limitsOf(d.fab.dev.Info()) }

func limitsOf(i device.Info) Limits {
	p := settings.InForce{}.On(&i)
	return Limits{
		Device: i.Name, MTU: i.MTU, MaxMessage: math.MaxInt, MaxInject: maxInject(i.MTU), MaxMedium: p.MaxMedium,
		MaxAtomic: maxAtomic(i.MTU), CQData: 8, MaxEndpoints: limit(i.MaxQP), MaxSQ: limit(i.MaxSQ), MaxRQ: limit(i.MaxRQ),
		MaxOps: ope.MaxOps, MaxQueue: maxDepth, IOV: IOVLimit, RMAIOV: RMAIOVLimit,
		RDMARead: i.RDMARead, RDMAWrite: i.RDMAWrite, MaxRDMA: i.MaxRDMA, MinRead: p.MinRead, MinReadWrite: p.MinReadWrite,
	}
}

// limit is a device's limit; 0 is none.
func limit(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}
