package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// greetingLen is the length of a greeting.
const greetingLen = 8

func appendGreeting(b []byte, v verdict) []byte {
	b = append(b, magic[:]...)
	b = binary.LittleEndian.AppendUint16(b, version)
	return append(b, uint8(v), 0)
}

func parseGreeting(b []byte) (verdict, error) {
	switch {
	case len(b) != greetingLen || [4]byte(b) != magic:
		return 0, fmt.Errorf("%w: no magic", errPreamble)
	case binary.LittleEndian.Uint16(b[4:]) != version:
		return wrongVersion, otherVersion(b)
	case b[6] >= uint8(verdicts) || b[7] != 0:
		return 0, fmt.Errorf("%w: greeting %x", errPreamble, b[6:])
	}
	return verdict(b[6]), nil
}

// greetingStatus is the status of the dialer's requests after a greeting that ends the
// connection.
func greetingStatus(v verdict, err error) device.Status {
	if errors.Is(err, errPreamble) {
		return device.StatusBadDestQPN
	}
	return v.status()
}
