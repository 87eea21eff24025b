package nic

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// Pending is returned by Carrier's Send and RDMA if Carrier.Poll yields the status later.
const Pending device.Status = 0xff

// Unsent is returned by Carrier's Send and RDMA if a call of this side failed that may succeed later,
// before anything went out. Why of Config's Explainer has the error, which wraps device.ErrUnsent.
const Unsent device.Status = 0xfe

// Carrier brings packets and RDMA of one queue pair to others and theirs to it.
// Only the queue pair's owner calls its methods, one at a time; they do not block
// and, apart from Route, do not allocate.
type Carrier interface {
	// Route prepares ah for use: the carrier keeps what it needs to reach gid
	// in a table of its own indexed by ah, since handles are small, dense and
	// used again after Unroute. A gid that cannot be reached is no error, its
	// sends end with a status; an error here means that ah was not made.
	Route(ah device.AH, gid device.GID) error
	Unroute(ah device.AH)

	// Send tries to carry wr.Header and wr.Payload, together at most one MTU,
	// to (wr.AH, wr.QPN). wr.AH is routed; wr.ID is of no concern here.
	//
	//	StatusOK       the packet lies in a posted slot of the receiver
	//	StatusRNR      none is posted there; QP sends again later, by RNRRetry
	//	Pending        unknown as yet: Poll yields {OpSend, ID: token, Status},
	//	               where StatusRNR makes QP send again, too
	//	Unsent          nothing went out, for a reason on this side
	//	anything else  the send is over (StatusBadDestQPN: no such queue pair,
	//	               or wr.QKey is not its Q_Key)
	//
	// wr belongs to the caller. After Pending the bytes stay valid until the
	// status was polled if Config.CopiesAtPost is false, otherwise they are
	// gone when Send returns, those that stay (wr.Stays) when Doorbell does.
	Send(wr *device.SendWR, token uint64) device.Status

	// RDMA carries out a WRRead or WRWrite: between wr.Payload and
	// [wr.Remote, +len(wr.Payload)) in the region wr.RKey of the device behind
	// (wr.AH, wr.QPN). It answers as Send does; StatusBadAddress: key, range or
	// right is wrong. wr.Payload stays valid until the status was polled, or
	// the queue pair closed. If Config.LocalKeys, it lay in the region wr.LKey
	// when RDMA was called; a carrier that copies later holds that region. RDMA is never
	// called for operations that Config does not offer.
	RDMA(wr *device.SendWR, token uint64) device.Status

	// Doorbell transmits what Send held back.
	Doorbell()

	// PostRecv hands slots to the device; each is in range and was not posted.
	PostRecv(slots []int32)

	// Poll fills c with events, returns how many and disarms. c may be
	// empty. An entry is one of
	//
	//	{OpRecv, ID: slot, Status, Len, SrcQPN, SrcGID, HasImm, Imm}
	//	{OpPlaced, ID: slot, Imm, Len, SrcQPN, SrcGID}
	//	{OpSend, ID: token, Status}
	//	{OpWritten, ID: slot or NoSlot, Len, SrcQPN, SrcGID, HasImm, Imm}
	//	{OpRefused, SrcQPN, SrcGID, ID: key}
	//	{OpGone, SrcQPN, SrcGID, QKey}
	//	{OpFatal, Status}, the last
	//
	// and AH is found by QP, unless it is UnknownAH already, or Config.FindsAH. Entries that QP
	// cannot believe are dropped.
	Poll(c []device.Completion) int

	// Arm asks for a notification when Poll would yield something; false: it
	// would at once, or only calls of Poll bring it nearer.
	Arm() bool

	// WakeAt asks for a notification at t as well (a resend is due then). It
	// comes before Arm. False: the carrier has no timer, so Poll must go on.
	WakeAt(t clock.Time) bool

	// FDs are descriptors that become readable by Arm, or nil (see device.QP).
	FDs() []int

	// Close ends the queue pair: afterwards others' packets to it are refused
	// with StatusBadDestQPN and no memory of it is touched.
	Close() error
}

// Interfaces of what only some carriers can do, see Config.
type (
	// Lender makes the memory windows of a queue pair, see device.QP's Lend.
	Lender interface {
		Lend(lkey uint32, mem []byte) (rkey uint64, err error)
		Return(rkey uint64)
	}

	// PlainLender lends memory that is in no region, see device.QP's LendPlain.
	PlainLender interface {
		LendPlain(to Source, mem []byte) (rkey, addr uint64, err error)
		Relend(rkey uint64, mem []byte) error
	}

	// Pulser is device.QP's Pulse.
	Pulser interface {
		Pulse(ah device.AH, qpn uint16) (uint32, bool)
	}

	// Holder refuses packets of a queue pair's messages from a turn on (device.QP's HoldBack),
	// or takes them again, or refuses all that comes from the one with that Q_Key (Shut). If it
	// knows nothing of that queue pair it does nothing.
	Holder interface {
		HoldBack(from Source, on bool, turn uint32)
		Shut(from Source)
	}

	// Explainer is a carrier that knows why it does not reach a device (device.QP's Why). It is asked
	// when Send or RDMA has returned Unsent, too.
	Explainer interface {
		Why(gid device.GID) error
	}
)
