package remote

import (
	"encoding/binary"

	"github.com/efactor/efactor/api/efa"
)

// A frame is one tagged message. Its first byte says what it is, the next eight are a session, most
// often the receiver's, see connect.go.
//
//	0      1         9
//	+------+---------+----------+
//	| kind | session |   body   |
//	+------+---------+----------+
type kind uint8

const (
	kindHello   kind = iota + 1 // session: the sender's. Body: version, address, name
	kindWelcome                 // session: the receiver's. Body: the sender's
	kindData                    // body: envelopes
	kindPing                    // nothing: is the session still known?
	kindReset                   // it is not
	kindBye                     // the sender's end; there is nothing more in the session
)

const (
	version   = 1
	frameHead = 9
	// tagFrames is the tag of all frames, and tagWatch that of none: a receive ends with the peer.
	tagFrames = 0xAC<<56 | 1
	tagWatch  = 0xAC<<56 | 2
	// maxHello bounds the texts in HELLO.
	maxHello = 4096
)

func appendHead(b []byte, k kind, session uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, byte(k)), session)
}

// hello is the body of a HELLO.
type hello struct {
	address efa.Address // of the endpoint
	name    string      // of the process: what its PIDs have as their address
}

func (h *hello) append(b []byte) []byte {
	return appendString(appendString(append(b, version), h.address.String()), h.name)
}

func (h *hello) parse(b []byte) error {
	if len(b) == 0 || len(b) > maxHello || b[0] != version {
		return violation("a HELLO of another version, or %d bytes", len(b))
	}
	r := reader{b: b[1:]}
	text, err := r.text()
	if err != nil {
		return err
	}
	if h.address, err = efa.ParseAddress(text); err != nil {
		return violation("a HELLO: %v", err)
	}
	h.name, err = r.text()
	if err == nil && (h.name == "" || len(r.b) > 0) {
		err = violation("a HELLO without a name, or with more")
	}
	return err
}

// isFrom reports whether an address that a message states is its sender's.
func isFrom(m *efa.Message, a efa.Address) bool {
	for _, scheme := range []string{"shm", "tcp", "efa", "sim"} {
		if raw, ok := a.Raw(scheme); ok && raw == m.Raw() {
			return true
		}
	}
	return false
}
