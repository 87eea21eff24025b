package device

// Op is the kind of a completion.
type Op uint8

// The kinds of completion.
const (
	OpSend Op = iota + 1 // a work request of the send queue ended, of whatever kind
	OpRecv
	// OpWritten: the other side's WRWrite with immediate has put Len bytes into a
	// region here. ID is the receive that it took, NoSlot if
	// Info.UnsolicitedWrite; the slot is the caller's again, with nothing in it.
	OpWritten
	// OpRefused is a software device's knowledge that it has refused an RDMA
	// request of (AH, SrcQPN): a key, range or right was wrong. ID is the key.
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
	ID     uint64 // OpSend: SendWR.ID; OpRecv, OpWritten: the slot; OpRefused: the key
	Op     Op
	Status Status
	HasImm bool   // OpRecv; always of OpWritten
	Left   bool   // OpGone
	AH     AH     // of the other side; not OpSend
	SrcQPN uint16 // of the other side; not OpSend
	Imm    uint32 // if HasImm
	QKey   uint32 // OpGone
	Len    int    // OpRecv: bytes in the slot; OpWritten: bytes written
	SrcGID GID    // of the other side, set when AH is UnknownAH; not OpSend
}
