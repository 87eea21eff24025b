package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/wire"
)

// Rounding is how a medium message is cut (§3.2; releases differ).
type Rounding = era.Rounding

// The ways to cut.
const (
	RoundDown = era.Down // libfabric 2.x: even parts rounded down, the last takes the rest
	RoundUp   = era.Up   // 1.17: even parts rounded up, the last is the smallest
	Fill      = era.Fill // 1.13: full packets, the last takes the rest
)

// Policy is how operations are sent; the receiving side takes anything. Its zero
// value means libfabric 2.3.1's defaults. Sizes are in bytes.
type Policy struct {
	MaxMedium    int // longer messages use long-CTS (65536; negative: no medium)
	MinRead      int // messages from here on are read (1 MiB; negative: none)
	MinReadWrite int // the same of writes (65536; negative: none)
	ReadSegment  int // most that one RDMA request moves (1 GiB, or what the device can)
	RuntSize     int // of a read message, what is sent at once (0: nothing)
	Credits      int // packets in a CTS window that we grant, and ask for (32)
	Rounding     Rounding
	// NoRDMARead, NoRDMAWrite: as if the device had none.
	NoRDMARead, NoRDMAWrite bool
}

// WithDefaults fills in what is zero.
func (p Policy) WithDefaults() Policy {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&p.MaxMedium, 65536)
	set(&p.MinRead, 1<<20)
	set(&p.MinReadWrite, 65536)
	set(&p.ReadSegment, 1<<30)
	set(&p.Credits, 32)
	p.Credits = min(p.Credits, maxCredits)
	return p
}

// maxCredits keeps a window, in bytes, far from the end of 64 bits.
const maxCredits = 1 << 20

// Features is what HANDSHAKE tells peers that an endpoint with the policy can do on
// a device (§2.1): the protocol's own always, RDMA as the device has it.
func (p *Policy) Features(i *device.Info) wire.Features {
	f := wire.MakeFeatures(wire.FeatureConnIDHeader, wire.FeatureDeliveryComplete, wire.FeatureRunt,
		wire.FeatureReadNACK, wire.FeaturePeerError)
	if i.RDMARead && !p.NoRDMARead {
		f.Set(wire.FeatureRDMARead)
	}
	if i.RDMAWrite && !p.NoRDMAWrite {
		f.Set(wire.FeatureRDMAWrite)
	}
	if i.UnsolicitedWrite && !p.NoRDMAWrite {
		f.Set(wire.FeatureUnsolicitedWrite)
	}
	return f
}

// align is the alignment of the parts of a medium message in host memory.
const align = 8

// Cut divides total bytes into packets of at most room: parts of size each, the
// last taking what is left. n is their number. total and room are above 0.
func Cut(r Rounding, total, room int) (size, n int) {
	if r == Fill || total <= room {
		return room, (total + room - 1) / room
	}
	parts := (total + room - 1) / room
	size = (total + parts - 1) / parts
	if r == RoundUp {
		size = min((size+align-1)/align*align, room)
		return size, (total + size - 1) / size
	}
	if size -= size % align; size == 0 {
		return room, parts
	}
	n = total / size
	if rest := total - n*size; size+rest > room {
		n++
	}
	return size, n
}
