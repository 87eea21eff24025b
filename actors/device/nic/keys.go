package nic

import (
	"crypto/rand"
	"encoding/binary"
)

// Keys draws keys that cannot be guessed, many at a time, so that one costs little. One
// goroutine at a time may use it.
type Keys struct {
	drawn [256]byte
	left  int // of drawn that nobody has, its beginning
}

// Draw returns the next.
func (k *Keys) Draw() uint32 {
	if k.left == 0 {
		_, _ = rand.Read(k.drawn[:]) // never fails
		k.left = len(k.drawn)
	}
	k.left -= 4
	return binary.LittleEndian.Uint32(k.drawn[k.left:])
}
