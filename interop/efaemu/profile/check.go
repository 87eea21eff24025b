package profile

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/efactor/efactor/actors/device"
)

// Bounds of a profile's values, set by fields of the interface and by the memory
// that the emulator is willing to set aside.
const (
	maxDepth  = 32768   // with 16-bit counters a full queue differs from an empty one
	maxLLQ    = 4 << 20 // 32768 WQEs of 128 bytes
	maxPairs  = 65535   // numbers of 16 bits, 0 left out
	maxSubCQs = 16
	maxInline = 32 // the body of a WQE of 64 bytes
	maxWide   = 80 // of 128 bytes
)

// Validate returns all that is wrong with p.
func (p *Profile) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("profile "+p.Name+": "+format, args...))
		}
	}
	within := func(what string, v, least, most uint32) {
		check(v >= least && v <= most, "%s: %d is not between %d and %d", what, v, least, most)
	}
	check(p.Kernel <= Newest, "kernel: %d", p.Kernel)
	check(p.PartID >= 0xefa0 && p.PartID <= 0xefa4, "part id: %#x", p.PartID)
	check(!p.RDMAWrite || p.Kernel == Newest, "RDMA write takes the newest kernel")
	check(!p.UnsolicitedWrite || p.RDMAWrite, "unsolicited writes take RDMA write")
	check(!p.RDMARead && !p.RDMAWrite || p.MaxRDMA > 0, "RDMA of 0 bytes")
	within("send queue", p.MaxSQ, 1, maxDepth)
	within("receive queue", p.MaxRQ, 1, maxDepth)
	within("work requests", p.MaxQPWR, 1, min(p.MaxSQ, p.MaxRQ))
	within("segments of a send", uint32(p.MaxSGESQ), 1, 2)
	within("segments of a receive", uint32(p.MaxSGERQ), 1, 16)
	within("queue pairs", p.MaxQP, 1, maxPairs)
	within("completion queues", p.MaxCQ, 1, maxPairs)
	within("entries", p.MaxCQE, 1, maxDepth)
	check(bits.OnesCount32(p.MaxCQE) == 1, "entries: %d is no power of two", p.MaxCQE)
	within("memory regions", p.MaxMR, 1, 1<<24)
	within("protection domains", p.MaxPD, 1, maxPairs)
	within("address handles", p.MaxAH, 1, maxPairs) // 0xffff is the unknown one
	within("bytes of send queue", p.MaxLLQ, 64, maxLLQ)
	within("least send queue", uint32(p.MinSQ), 0, min(p.MaxSQ, p.MaxLLQ/64))
	within("sub-CQs", uint32(p.SubCQs), 1, maxSubCQs)
	within("bytes inline", uint32(p.Inline), 0, maxInline)
	check(p.InlineEx == 0 || p.Kernel == Newest, "WQEs of 128 bytes take the newest kernel")
	check(p.InlineEx == 0 || p.InlineEx >= p.Inline && p.InlineEx <= maxWide, "bytes inline of 128: %d", p.InlineEx)
	within("completion vectors", p.CompVectors, 1, 1024)
	return errors.Join(errs...)
}

// For is p without what d cannot do.
func For(p Profile, d device.Device) Profile {
	p = p.Within(d.Info())
	if !d.Info().Foreign { // others' memory cannot be reached for them
		p.RDMARead, p.RDMAWrite, p.UnsolicitedWrite, p.MaxRDMA = false, false, false, 0
	}
	return p
}

// Within is p without what a device that says info cannot do.
func (p Profile) Within(info device.Info) Profile {
	p.RDMARead = p.RDMARead && info.RDMARead
	p.RDMAWrite = p.RDMAWrite && info.RDMAWrite
	p.UnsolicitedWrite = p.UnsolicitedWrite && p.RDMAWrite
	if !p.RDMARead && !p.RDMAWrite {
		p.MaxRDMA = 0 // else what it says: the engine cuts requests to the device's measure
	}
	p.MaxSQ = clamp(p.MaxSQ, info.MaxSQ)
	p.MaxRQ = clamp(p.MaxRQ, info.MaxRQ)
	p.MaxQPWR = min(p.MaxQPWR, p.MaxSQ, p.MaxRQ)
	p.MinSQ = uint16(min(uint32(p.MinSQ), p.MaxSQ))
	p.MaxQP = clamp(p.MaxQP, info.MaxQP)
	return p
}

// clamp is v, or what the device has if that is less; 0: it doesn't say.
func clamp(v uint32, has int) uint32 {
	if has > 0 && uint64(has) < uint64(v) {
		return uint32(has)
	}
	return v
}
