package abi

import (
	"encoding/binary"
	"errors"
)

// ErrShort is the error of fewer bytes than the structure has.
var ErrShort = errors.New("abi: too short")

var le = binary.LittleEndian

// need reports ErrShort if b has less than n bytes.
func need(b []byte, n int) error {
	if len(b) < n {
		return ErrShort
	}
	return nil
}
