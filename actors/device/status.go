package device

import "fmt"

// Status is the device's verdict on one work request. The numbers are EFA's.
type Status uint8

// EFA's completion status codes.
const (
	StatusOK              Status = 0
	StatusFlushed         Status = 1
	StatusQPInternal      Status = 2
	StatusUnsupportedOp   Status = 3
	StatusInvalidAH       Status = 4
	StatusInvalidLKey     Status = 5
	StatusLocalBadLength  Status = 6
	StatusBadAddress      Status = 7 // remote key, range or right
	StatusAbort           Status = 8 // the remote side was reset
	StatusBadDestQPN      Status = 9
	StatusRNR             Status = 10 // receiver not ready: no receive posted
	StatusRemoteBadLength Status = 11
	StatusBadStatus       Status = 12
	StatusUnresponsive    Status = 13
	StatusUnknownPeer     Status = 14 // the responder has no address handle for us
	StatusUnreachable     Status = 15
	StatusMismatch        Status = 18
)

var statusText = map[Status]string{
	StatusOK:              "ok",
	StatusFlushed:         "flushed at queue pair destroy",
	StatusQPInternal:      "local queue pair internal error",
	StatusUnsupportedOp:   "operation not supported",
	StatusInvalidAH:       "invalid address handle",
	StatusInvalidLKey:     "invalid local key",
	StatusLocalBadLength:  "message too long",
	StatusBadAddress:      "bad remote address or key",
	StatusAbort:           "remote connection was reset",
	StatusBadDestQPN:      "no such queue pair at the destination",
	StatusRNR:             "receiver not ready",
	StatusRemoteBadLength: "receive buffer too small",
	StatusBadStatus:       "bad status from the remote side",
	StatusUnresponsive:    "remote side does not respond",
	StatusUnknownPeer:     "remote side does not know us",
	StatusUnreachable:     "no path to the remote side",
	StatusMismatch:        "feature mismatch",
}

// String gives the text that an operator sees.
func (s Status) String() string {
	if t, ok := statusText[s]; ok {
		return t
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Gone reports whether the status means that the other side is not there: closed,
// restarted, dead, out of reach or of another kind (protocol-wise the peer may be failed).
func (s Status) Gone() bool {
	switch s {
	case StatusAbort, StatusBadDestQPN, StatusUnresponsive, StatusUnknownPeer, StatusUnreachable, StatusMismatch:
		return true
	default:
		return false
	}
}
