package nic

import (
	"crypto/rand"
	"encoding/binary"
)

// Keys draws keys that cannot be guessed, many at a time, so that one costs little. One
// goroutine at a time may use it.
type Keys struct {
	// Long makes keys that cannot be found by trying either, of 62 bits instead of 32: the
	// highest two belong to the protocol (mr.DeviceKey).
	Long bool

	drawn [256]byte
	left  int // of drawn that nobody has, its beginning
}

// Draw returns the next.
func (k *Keys) Draw() uint64 {
	if k.left == 0 {
		_, _ = rand.Read(k.drawn[:]) // never fails
		k.left = len(k.drawn)
	}
	k.left -= 8
	key := binary.LittleEndian.Uint64(k.drawn[k.left:])
	if k.Long {
		return key >> 2
	}
	return key >> 32
}

// LongKeys is RegionsConfig.Key for keys of 62 bits.
func LongKeys() func() uint64 { return (&Keys{Long: true}).Draw }
