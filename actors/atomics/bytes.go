package atomics

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// bigEndian reports whether this host's byte order differs from that of packets.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// native reads an element of memory; p is as long as U and may lie anywhere.
func native[U unsigned](p []byte) U { return inOrder(little[U](p), bigEndian) }

func putNative[U unsigned](p []byte, v U) { putLittle(p, inOrder(v, bigEndian)) }

// inOrder reverses the bytes of v if reverse is set.
func inOrder[U unsigned](v U, reverse bool) U {
	if !reverse {
		return v
	}
	return U(bits.ReverseBytes64(uint64(v)) >> (64 - 8*unsafe.Sizeof(v)))
}

// little reads an element of a packet; p is as long as U.
func little[U unsigned](p []byte) U {
	switch unsafe.Sizeof(U(0)) {
	case 1:
		return U(p[0])
	case 2:
		return U(binary.LittleEndian.Uint16(p))
	case 4:
		return U(binary.LittleEndian.Uint32(p))
	default:
		return U(binary.LittleEndian.Uint64(p))
	}
}

func putLittle[U unsigned](p []byte, v U) {
	switch unsafe.Sizeof(v) {
	case 1:
		p[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(p, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(p, uint32(v))
	default:
		binary.LittleEndian.PutUint64(p, uint64(v))
	}
}
