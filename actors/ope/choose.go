package ope

import (
	"errors"
	"fmt"
	"math"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/wire"
)

// Facts are what the choice of a subprotocol depends on. Sizes are in bytes.
type Facts struct {
	// The MTU, and the optional headers of the requests that share it.
	MTU     int
	RawAddr bool
	ConnID  bool
	HasData bool

	Kind    Kind
	Form    atomics.Form
	Total   int
	Tagged  bool
	Deliver bool

	// Source: the memory here may be read by the peer's device. Local: it may
	// take part in RDMA of ours.
	Source, Local bool
	// Target: the device reaches the peer's memory.
	Target bool

	CanRead, CanWrite bool // RDMA, by both devices
	CanRunt           bool // the peer knows runting read
	SameUnsolicited   bool // both sides treat a write with immediate alike, and the data fits one
	UserQP            bool // the peer takes data without headers only
	Runt              int  // bytes that may go as runt now; 0: none
	MediumFirst       bool // as 1.13 chose
	MaxRDMA           int  // bytes of one RDMA request

	// Pieces and Remotes are how many pieces the memory here and the peer's is in, Cuts how many
	// RDMA requests that makes; 0: one, and as many as MaxRDMA makes.
	Pieces, Remotes, Cuts int
}

// Why an operation has no subprotocol.
var (
	errTooLong = fmt.Errorf("%w: longer than a packet", errno.ErrMsgSize)
	// The data goes as immediate data of the device, of 32 bits.
	errUserQPData = fmt.Errorf("%w: the peer takes remote CQ data of 32 bits only", errno.ErrNotSupported)
	errUserQP     = fmt.Errorf("%w: the peer takes short untagged messages only", errno.ErrNotSupported)
	errNoChoice   = errors.New("no subprotocol")
)

// room is what a request with the given mandatory header can carry.
func (f *Facts) room(header int) int {
	n := f.MTU - header
	if f.RawAddr {
		n -= wire.RawAddrHdrLen
	}
	if f.ConnID {
		n -= wire.ConnIDHdrLen
	}
	if f.HasData {
		n -= wire.CQDataHdrLen
	}
	return n
}

// Choose picks the subprotocol for an operation, in libfabric's order
// (§3.2, §3.3, §4), and how it is cut.
func (f *Facts) Choose(p *Policy) (Shape, error) {
	switch f.Kind {
	case KindSend:
		return f.message(p)
	case KindWrite:
		return f.write(p), nil
	case KindRead:
		return f.read(p), nil
	case KindAtomic:
		return f.atomic()
	default:
		return Shape{}, errNoChoice
	}
}

func whole(p Proto, total int) (Shape, error) {
	return Shape{Proto: p, Total: uint64(total), End: uint64(total), Seg: total, Parts: 1}, nil
}

// message: read-based from MinRead on, then by what fits.
func (f *Facts) message(p *Policy) (Shape, error) {
	if f.UserQP {
		if f.Tagged || f.Deliver {
			return Shape{}, errUserQP
		}
		if f.Total > f.MTU {
			return Shape{}, errTooLong
		}
		return whole(Headerless, f.Total)
	}
	eager, medium, long := Eager, Medium, LongCTS
	h := [3]int{wire.EagerMsgRTMLen, wire.MediumMsgRTMLen, wire.LongCTSMsgRTMLen}
	if f.Tagged {
		h = [3]int{wire.EagerTagRTMLen, wire.MediumTagRTMLen, wire.LongCTSTagRTMLen}
	}
	if f.Deliver {
		eager, medium, long = DCEager, DCMedium, DCLongCTS
		h = [3]int{wire.DCEagerMsgRTMLen, wire.DCMediumMsgRTMLen, wire.LongCTSMsgRTMLen}
		if f.Tagged {
			h = [3]int{wire.DCEagerTagRTMLen, wire.DCMediumTagRTMLen, wire.LongCTSTagRTMLen}
		}
	}
	short := f.Total <= f.room(h[0])
	if f.Source && f.CanRead && p.MinRead > 0 && f.Total >= p.MinRead &&
		!(f.MediumFirst && (short || f.Total <= p.MaxMedium)) {
		return f.readBased(p), nil
	}
	switch {
	case short:
		return whole(eager, f.Total)
	case f.Total <= p.MaxMedium:
		seg, n := Cut(p.Rounding, f.Total, f.room(h[1]))
		return Shape{Proto: medium, Total: uint64(f.Total), End: uint64(f.Total), Seg: seg, Parts: n}, nil
	default:
		return Shape{Proto: long, Total: uint64(f.Total), End: uint64(f.Total), Seg: f.room(h[2]), Parts: 1}, nil
	}
}

// readBased: runting read if some of the message may go at once (§4.5), else long
// read (§4.1).
func (f *Facts) readBased(p *Policy) Shape {
	s := Shape{Proto: LongRead, Total: uint64(f.Total), Parts: 1}
	runt := min(f.Runt, f.Total)
	runt -= runt % align
	if f.Deliver || !f.CanRunt || runt <= 0 {
		return s
	}
	h := wire.RuntReadMsgRTMLen
	if f.Tagged {
		h = wire.RuntReadTagRTMLen
	}
	s.Proto, s.End = RuntRead, uint64(runt)
	s.Seg, s.Parts = Cut(p.Rounding, runt, f.room(h+iovLen(f.Pieces)))
	return s
}

func (f *Facts) write(p *Policy) Shape {
	eager, long, h := EagerWrite, LongCTSWrite, wire.EagerRTWLen
	if f.Deliver {
		eager, long, h = DCEagerWrite, DCLongCTSWrite, wire.DCEagerRTWLen
	}
	n := uint64(f.Total)
	switch {
	case f.CanWrite && f.Local && f.Target && (!f.HasData || f.SameUnsolicited && f.Total <= f.MaxRDMA && f.Cuts <= 1):
		return Shape{Proto: DirectWrite, Total: n, End: n, Seg: f.MaxRDMA, Parts: max(1, f.Cuts, (f.Total+f.MaxRDMA-1)/f.MaxRDMA)}
	case f.Source && f.CanRead && p.MinReadWrite > 0 && f.Total >= p.MinReadWrite && f.fits():
		return Shape{Proto: LongReadWrite, Total: n, Parts: 1}
	case f.Total <= f.room(h+iovLen(f.Remotes)):
		return Shape{Proto: eager, Total: n, End: n, Seg: f.Total, Parts: 1}
	default:
		return Shape{Proto: long, Total: n, End: n, Seg: f.room(wire.LongCTSRTWLen + iovLen(f.Remotes)), Parts: 1}
	}
}

// iovLen is what n pieces of memory take up in a header.
func iovLen(n int) int { return max(1, n) * wire.RMAIOVLen }

// fits reports whether the pieces of both sides have room in the header of a long-read write.
func (f *Facts) fits() bool {
	return wire.LongReadRTWLen+iovLen(f.Pieces)+iovLen(f.Remotes)+
		wire.RawAddrHdrLen+wire.CQDataHdrLen+wire.ConnIDHdrLen <= device.MaxHeader
}

func (f *Facts) read(p *Policy) Shape {
	s := Shape{Total: uint64(f.Total)}
	switch {
	case f.CanRead && f.Local && f.Target:
		s.Proto = DirectRead
	case f.Total < f.MTU-wire.READRSPLen: // strictly, as all releases have it
		s.Proto, s.Window = ShortRead, s.Total
	default:
		s.Proto = LongCTSRead
		// At least what a READRSP holds: responders put that much into it.
		s.Window = min(s.Total, uint64(max(p.Credits*(f.MTU-ctsDataHeader), f.MTU-wire.READRSPLen)), maxRTRWindow)
	}
	return s
}

// maxRTRWindow is the most that an RTR can grant: its recv_length has 32 bits.
const maxRTRWindow = math.MaxUint32

func (f *Facts) atomic() (Shape, error) {
	p := [...]Proto{AtomicWrite: WriteAtomic, AtomicFetch: FetchAtomic, AtomicCompare: CompareAtomic}[f.Form]
	if f.Deliver && p == WriteAtomic {
		p = DCWriteAtomic
	}
	n := f.Total
	if f.Form == AtomicCompare {
		n *= 2
	}
	if n > MaxAtomic(f.MTU) {
		return Shape{}, errTooLong
	}
	return whole(p, n)
}

// MaxAtomic is the most bytes of operand, or of operand and comparand, that an
// atomic carries (libfabric's figure: a packet less the largest headers).
func MaxAtomic(mtu int) int { return mtu - 152 }

// Rounding is how a medium message is cut (§3.2; releases differ).
type Rounding = era.Rounding

// The ways to cut.
const (
	RoundDown = era.Down // libfabric 2.x: even parts rounded down, the last takes the rest
	RoundUp   = era.Up   // 1.17: even parts rounded up, the last is the smallest
	Fill      = era.Fill // 1.13: full packets, the last takes the rest
)

// Policy is how operations are sent on one path: the settings in force there. The receiving
// side takes anything.
type Policy = settings.InForce

// align is the alignment of the parts of a medium message in host memory.
const align = 8

// Cut divides total bytes into packets of at most room: parts of size each, the
// last taking the rest. n is their number. total and room are above 0.
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
