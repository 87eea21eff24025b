package shm

import (
	"encoding/binary"
	"math"
)

// mark holds a packet's properties besides its bytes. The zero value is a plain
// packet.
type mark struct {
	bits word
	imm  uint32 // if bits has withImm

	begins bool // device.SendWR has it and turn; the packet itself does not say so
	turn   uint32
}

const (
	// withImm: the last bytes of the cell hold an immediate.
	withImm word = 1 << 15
	// written: the packet is the note that follows the data of a write with
	// immediate. It takes a posted slot, as on a device without unsolicited writes,
	// and holds the number of bytes written, or of the whole write (SendWR.Whole). They were stored before the note was
	// published.
	written word = 1 << 14

	immBytes  = 4
	noteBytes = 8
)

// room is how many bytes of a packet a cell holds.
func (w word) room() int {
	if w&withImm != 0 {
		return inlineMax - immBytes
	}
	return inlineMax
}

// putImm writes the immediate into a cell, if there is one.
func (m mark) putImm(inline *[inlineMax]byte) {
	if m.bits&withImm != 0 {
		binary.LittleEndian.PutUint32(inline[inlineMax-immBytes:], m.imm)
	}
}

// immOf reads the immediate from a cell; 0 if there is none.
func (w word) immOf(inline *[inlineMax]byte) uint32 {
	if w&withImm == 0 {
		return 0
	}
	return binary.LittleEndian.Uint32(inline[inlineMax-immBytes:])
}

func putNote(b *[noteBytes]byte, bytes int) { binary.LittleEndian.PutUint64(b[:], uint64(bytes)) }

// parseNote reads a note; false: it is invalid.
func parseNote(b []byte) (bytes int, ok bool) {
	if len(b) != noteBytes {
		return 0, false
	}
	n := binary.LittleEndian.Uint64(b)
	return int(n), n <= math.MaxUint32
}
