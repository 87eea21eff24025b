package shm

import (
	"encoding/binary"
	"math"

	"github.com/efactor/efactor/actors/device"
)

// The marks of a packet: its properties besides its bytes, as bits of its word.
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

// marksOf are the marks of a send.
func marksOf(wr *device.SendWR) word {
	if wr.HasImm {
		return withImm
	}
	return 0
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
