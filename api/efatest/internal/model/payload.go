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

// ID returns the identifier of the message that b begins with; -1: b is too short.
func ID(b []byte) int {
	if len(b) < idLen {
		return -1
	}
	return int(binary.LittleEndian.Uint32(b))
}

// Differs returns where b is not how Fill wrote message id, whose length is n,
// -1 if nowhere. b may be the beginning of the message.
func Differs(b []byte, id, n int) int { return DiffersAt(b, 0, id, n) }

// DiffersAt is Differs for a part of the message that begins at off.
func DiffersAt(b []byte, off, id, n int) int {
	for i := 0; i < len(b); {
		at := off + i
		if at%8 == 0 && at > 0 && i+8 <= len(b) && binary.LittleEndian.Uint64(b[i:]) == word(id, at) {
			i += 8
			continue
		}
		if b[i] != byteOf(id, at, n) {
			return i
		}
		i++
	}
	return -1
}

// byteOf is the byte at a place in message id, whose length is n.
func byteOf(id, at, n int) byte {
	if at < idLen && n >= idLen {
		return byte(id >> (8 * at))
	}
	return byte(word(id, at&^7) >> (8 * (at & 7)))
}

func word(id, at int) uint64 {
	x := uint64(id)<<32 ^ uint64(at) ^ 0x9e3779b97f4a7c15
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>29
}
