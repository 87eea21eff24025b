package errno

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// Provider is the EFA provider's code of an error: below 4096 the device's
// status, above the provider's own.
type Provider uint16

// The provider's own codes (efa_errno.h).
const (
	ProvOther               Provider = 4096
	ProvDeprecatedPktType   Provider = 4097
	ProvInvalidPktType      Provider = 4098
	ProvUnknownPktType      Provider = 4099
	ProvPktPost             Provider = 4100
	ProvPktAlready          Provider = 4104
	ProvOOM                 Provider = 4105
	ProvRMAAddr             Provider = 4111
	ProvPeerHandshake       Provider = 4113
	ProvRTMMismatch         Provider = 4115
	ProvInvalidDatatype     Provider = 4118
	ProvEstablishedUnresp   Provider = 4124
	ProvUnestablishedUnresp Provider = 4126
	ProvPeerAborted         Provider = 4127
)

var provText = map[Provider]string{
	ProvOther:               "unknown provider error",
	ProvDeprecatedPktType:   "deprecated packet type",
	ProvInvalidPktType:      "invalid packet type",
	ProvUnknownPktType:      "unknown packet type",
	ProvPktPost:             "failure to post a packet",
	ProvPktAlready:          "packet was processed already",
	ProvOOM:                 "out of memory",
	ProvRMAAddr:             "no access to the memory that was named",
	ProvInvalidDatatype:     "invalid datatype or operation of an atomic",
	ProvPeerHandshake:       "failure in the handshake with a peer",
	ProvRTMMismatch:         "packet does not fit its operation",
	ProvEstablishedUnresp:   "unresponsive receiver (was reachable before)",
	ProvUnestablishedUnresp: "unresponsive receiver (never reached)",
	ProvPeerAborted:         "peer aborted the operation",
}

// String describes the code.
func (p Provider) String() string {
	if t, ok := provText[p]; ok {
		return t
	}
	if p < 4096 {
		return device.Status(p).String()
	}
	return fmt.Sprintf("provider code %d", uint16(p))
}

// Of maps a device's status to the libfabric number and provider code.
// handshaken reports whether the peer ever answered.
func Of(s device.Status, handshaken bool) (Errno, Provider) {
	switch s {
	case device.StatusOK:
		return 0, 0
	case device.StatusFlushed:
		return ErrCanceled, Provider(s)
	case device.StatusLocalBadLength, device.StatusRemoteBadLength:
		return ErrMsgSize, Provider(s)
	case device.StatusAbort:
		return ErrConnAborted, Provider(s)
	case device.StatusBadDestQPN, device.StatusUnknownPeer:
		return ErrNotConnected, Provider(s)
	case device.StatusRNR:
		return ErrNoRx, Provider(s)
	case device.StatusBadStatus:
		return ErrRemoteIO, Provider(s)
	case device.StatusUnreachable:
		return ErrHostUnreach, Provider(s)
	case device.StatusUnresponsive:
		if handshaken {
			return ErrConnAborted, ProvEstablishedUnresp
		}
		return ErrConnAborted, ProvUnestablishedUnresp
	default:
		return ErrInvalid, Provider(s)
	}
}
