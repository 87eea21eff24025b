package model

import "encoding/binary"

// idLen is how many bytes of a message say which one it is.
const idLen = 4

// Fill writes the contents of message id: its number, then a sequence that
// depends on the number and the place.
func Fill(b []byte, id int) {
	n := len(b) &^ 7
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], word(id, i))
	}
	if n < len(b) {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], word(id, n))
		copy(b[n:], last[:])
	}
	if len(b) >= idLen {
		binary.LittleEndian.PutUint32(b, uint32(id))
	}
}

// ID tells which message b begins with; -1: too short to say.
func ID(b []byte) int {
	if len(b) < idLen {
		return -1
	}
	return int(binary.LittleEndian.Uint32(b))
}

// Differs returns where b is not how Fill wrote message id, whose length is n,
// -1 if nowhere. b may be the beginning of the message.
func Differs(b []byte, id, n int) int {
	var want [8]byte
	for i := 0; i < len(b); i += 8 {
		w := word(id, i)
		if i > 0 && i+8 <= len(b) {
			if binary.LittleEndian.Uint64(b[i:]) == w {
				continue
			}
		}
		binary.LittleEndian.PutUint64(want[:], w)
		if i == 0 && n >= idLen {
			binary.LittleEndian.PutUint32(want[:], uint32(id))
		}
		for k := i; k < min(i+8, len(b)); k++ {
			if b[k] != want[k-i] {
				return k
			}
		}
	}
	return -1
}

func word(id, at int) uint64 {
	x := uint64(id)<<32 ^ uint64(at) ^ 0x9e3779b97f4a7c15
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>29
}
