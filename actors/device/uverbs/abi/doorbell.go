package abi

// Doorbells are words of 32 bits, each written with one store.

// WorkDoorbell is the doorbell of a send or receive queue: all entries below the
// free-running count pc are valid. A send queue counts WQEs, a receive queue
// descriptors.
func WorkDoorbell(pc uint16) uint32 { return uint32(pc) }

// ParseWorkDoorbell returns the count; reserved reports whether the other bits are not
// 0.
func ParseWorkDoorbell(w uint32) (pc uint16, reserved bool) { return uint16(w), w>>16 != 0 }

// CQDoorbell is the doorbell of a completion queue.
type CQDoorbell struct {
	Consumed uint16 // free-running count of completions, of all sub-queues together
	CmdSN    uint8  // two bits; counts the events that were read
	Arm      bool   // asks for one event

	Reserved bool // the bits between are not 0
}

const (
	cqCmdSNShift = 29
	cqArm        = 1 << 31
	cqReserved   = 0x1fff << 16
)

// Word is the doorbell as it is written.
func (d CQDoorbell) Word() uint32 {
	return uint32(d.Consumed) | uint32(d.CmdSN&3)<<cqCmdSNShift | bit[uint32](d.Arm, cqArm)
}

// ParseCQDoorbell reads a word.
func ParseCQDoorbell(w uint32) CQDoorbell {
	return CQDoorbell{
		Consumed: uint16(w), CmdSN: uint8(w >> cqCmdSNShift & 3), Arm: w&cqArm != 0,
		Reserved: w&cqReserved != 0,
	}
}
