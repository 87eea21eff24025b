package device

import (
	"fmt"
)

// Op is the kind of a completion.
type Op uint8

// The kinds of completion.
const (
	OpSend Op = iota + 1 // a work request of the send queue ended, of whatever kind
	OpRecv
	// OpPlaced is OpRecv of a packet of which the slot has the headers alone: Len bytes came, of which the last
	// lie where QPConfig.Place has said.
	OpPlaced
	// OpWritten: the other side's WRWrite with immediate has put Len bytes into a
	// region here. ID is the receive that it took, NoSlot if
	// Info.UnsolicitedWrite; the slot is the caller's again, with nothing in it.
	OpWritten
	// OpRefused is a software device's knowledge that it has refused an RDMA
	// request of (AH, SrcQPN): a key, range or right was wrong. ID is the key; Status is
	// StatusOK if that names memory here, or did lately, see RefusalOf.
	OpRefused
	// OpGone is a software device's knowledge that the process behind
	// (AH, SrcQPN, QKey) is dead, or, with Left, that the queue pair was closed in order:
	// then everything that it had sent, and what it answered, was reported before. AH is
	// UnknownAH if there is none.
	OpGone
	// OpFatal is the end of the queue pair: the device has failed, was reset or taken
	// away. Status says how far that is known. It comes once and last; what is
	// outstanding does not complete any more, PostSend reports ErrClosed, and all that is
	// left to the owner is Close. A device over several ends with the first of them.
	OpFatal
)

// NoSlot is the ID of an OpWritten that took no receive.
const NoSlot = ^uint64(0)

// Completion is one entry of the completion queue.
type Completion struct {
	ID     uint64 // OpSend: SendWR.ID; OpRecv, OpPlaced, OpWritten: the slot; OpRefused: the key
	Op     Op
	Status Status
	HasImm bool   // OpRecv; always of OpWritten
	Left   bool   // OpGone
	AH     AH     // of the other side; not OpSend
	SrcQPN uint16 // of the other side; not OpSend
	Imm    uint32 // if HasImm; OpPlaced: bytes in the slot
	QKey   uint32 // OpGone
	Len    int    // OpRecv: bytes in the slot; OpPlaced: of the packet; OpWritten: bytes written
	SrcGID GID    // of the other side, set when AH is UnknownAH; not OpSend
}

// Status is the device's verdict on one work request. The numbers are EFA's.
type Status uint8

// RefusalOf is the Status of an OpRefused. A key that is known was given out once: who names it has not
// guessed it.
func RefusalOf(known bool) Status {
	if known {
		return StatusOK
	}
	return StatusBadAddress
}

// EFA's completion status codes.
const (
	StatusOK              Status = 0
	StatusFlushed         Status = 1
	StatusQPInternal      Status = 2
	StatusUnsupportedOp   Status = 3
	StatusInvalidAH       Status = 4
	StatusInvalidLKey     Status = 5
	StatusLocalBadLength  Status = 6
	StatusBadAddress      Status = 7 // remote key, range or right
	StatusAbort           Status = 8 // the remote side was reset
	StatusBadDestQPN      Status = 9
	StatusRNR             Status = 10 // receiver not ready: no receive posted
	StatusRemoteBadLength Status = 11
	StatusBadStatus       Status = 12
	StatusUnresponsive    Status = 13
	StatusUnknownPeer     Status = 14 // the responder has no address handle for us, or wants none: QP.Shut
	StatusUnreachable     Status = 15
	StatusMismatch        Status = 18
)

var statusText = map[Status]string{
	StatusOK:              "ok",
	StatusFlushed:         "flushed at queue pair destroy",
	StatusQPInternal:      "local queue pair internal error",
	StatusUnsupportedOp:   "operation not supported",
	StatusInvalidAH:       "invalid address handle",
	StatusInvalidLKey:     "invalid local key",
	StatusLocalBadLength:  "message too long",
	StatusBadAddress:      "bad remote address or key",
	StatusAbort:           "remote connection was reset",
	StatusBadDestQPN:      "no such queue pair at the destination",
	StatusRNR:             "receiver not ready",
	StatusRemoteBadLength: "receive buffer too small",
	StatusBadStatus:       "bad status from the remote side",
	StatusUnresponsive:    "remote side does not respond",
	StatusUnknownPeer:     "remote side does not know us, or has shut us out",
	StatusUnreachable:     "no path to the remote side",
	StatusMismatch:        "feature mismatch",
}

// String gives the text that an operator sees.
func (s Status) String() string {
	if t, ok := statusText[s]; ok {
		return t
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Gone reports whether the status means that the other side is not there: closed,
// restarted, dead, out of reach or of another kind (protocol-wise the peer may be failed).
func (s Status) Gone() bool {
	switch s {
	case StatusAbort, StatusBadDestQPN, StatusUnresponsive, StatusUnknownPeer, StatusUnreachable, StatusMismatch:
		return true
	default:
		return false
	}
}
