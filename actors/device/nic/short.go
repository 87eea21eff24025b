package nic

import (
	"encoding/binary"

	"github.com/efactor/efactor/actors/device"
)

const (
	shortHead    = 32 // an ordinary header is not longer
	shortPayload = 16

	// ShortRoom is how much of the place of a packet PutShort needs.
	ShortRoom = shortHead + shortPayload
)

// PutShort copies the packet of a WRSend to the beginning of b, and something behind it, if it is an ordinary
// one of a few bytes: with a payload of 8 to 16, and a header that lies in a larger array. Otherwise it reports
// false. Copies of a size that the compiler knows are a few moves, where copy is a call that first finds out how
// much there is.
func PutShort(b *[ShortRoom]byte, wr *device.SendWR) bool {
	h, p := wr.Header, wr.Payload
	n := len(p)
	if n < 8 || n > shortPayload || len(h) > shortHead || cap(h) < shortHead {
		return false
	}
	head := *(*[shortHead]byte)(h[:shortHead])
	*(*[shortHead]byte)(b[:]) = head // the payload takes the place of what is not the header's
	first, last := binary.NativeEndian.Uint64(p), binary.NativeEndian.Uint64(p[n-8:])
	dst := (*[shortPayload]byte)(b[len(h):])
	binary.NativeEndian.PutUint64(dst[:], first)
	binary.NativeEndian.PutUint64(dst[n-8:], last)
	return true
}
