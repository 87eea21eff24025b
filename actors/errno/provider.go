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
	ProvPktSend             Provider = 4101
	ProvPktProcMsgRTM       Provider = 4102
	ProvPktProcTagRTM       Provider = 4103
	ProvPktAlready          Provider = 4104
	ProvOOM                 Provider = 4105
	ProvMRDereg             Provider = 4106
	ProvRxeCopy             Provider = 4107
	ProvRxePoolExhausted    Provider = 4108
	ProvTxePoolExhausted    Provider = 4109
	ProvAVInsert            Provider = 4110
	ProvRMAAddr             Provider = 4111
	ProvInternalRxBufPost   Provider = 4112
	ProvPeerHandshake       Provider = 4113
	ProvWRPostSend          Provider = 4114
	ProvRTMMismatch         Provider = 4115
	ProvReadPost            Provider = 4116
	ProvRDMAReadPost        Provider = 4117
	ProvInvalidDatatype     Provider = 4118
	ProvWriteSendComp       Provider = 4119
	ProvWriteRecvComp       Provider = 4120
	ProvDgramCQRead         Provider = 4121
	ProvSHMInternalError    Provider = 4122
	ProvWriteSHMCQEntry     Provider = 4123
	ProvEstablishedUnresp   Provider = 4124
	ProvInvalidPktTypeZcpy  Provider = 4125
	ProvUnestablishedUnresp Provider = 4126
	ProvPeerAborted         Provider = 4127
)

// provTexts are the provider's names and what they mean, from 4096 on.
var provTexts = [...]struct{ name, text string }{
	0:                                   {"OTHER", "unknown provider error"},
	ProvDeprecatedPktType - ProvOther:   {"DEPRECATED_PKT_TYPE", "deprecated packet type"},
	ProvInvalidPktType - ProvOther:      {"INVALID_PKT_TYPE", "invalid packet type"},
	ProvUnknownPktType - ProvOther:      {"UNKNOWN_PKT_TYPE", "unknown packet type"},
	ProvPktPost - ProvOther:             {"PKT_POST", "failure to post a packet"},
	ProvPktSend - ProvOther:             {"PKT_SEND", "failure to send a packet"},
	ProvPktProcMsgRTM - ProvOther:       {"PKT_PROC_MSGRTM", "failure to process the first packet of a message"},
	ProvPktProcTagRTM - ProvOther:       {"PKT_PROC_TAGRTM", "failure to process the first packet of a tagged message"},
	ProvPktAlready - ProvOther:          {"PKT_ALREADY_PROCESSED", "packet was processed already"},
	ProvOOM - ProvOther:                 {"OOM", "out of memory"},
	ProvMRDereg - ProvOther:             {"MR_DEREG", "failure to close a memory region"},
	ProvRxeCopy - ProvOther:             {"RXE_COPY", "failure to copy received data"},
	ProvRxePoolExhausted - ProvOther:    {"RXE_POOL_EXHAUSTED", "no place for another receive operation"},
	ProvTxePoolExhausted - ProvOther:    {"TXE_POOL_EXHAUSTED", "no place for another send operation"},
	ProvAVInsert - ProvOther:            {"AV_INSERT", "failure to insert an address"},
	ProvRMAAddr - ProvOther:             {"RMA_ADDR", "no access to the memory that was named"},
	ProvInternalRxBufPost - ProvOther:   {"INTERNAL_RX_BUF_POST", "failure to post receive buffers of the provider's own"},
	ProvPeerHandshake - ProvOther:       {"PEER_HANDSHAKE", "failure in the handshake with a peer"},
	ProvWRPostSend - ProvOther:          {"WR_POST_SEND", "failure to post to the send queue"},
	ProvRTMMismatch - ProvOther:         {"RTM_MISMATCH", "packet does not fit its operation"},
	ProvReadPost - ProvOther:            {"READ_POST", "failure to post a read"},
	ProvRDMAReadPost - ProvOther:        {"RDMA_READ_POST", "failure to post an RDMA read"},
	ProvInvalidDatatype - ProvOther:     {"INVALID_DATATYPE", "invalid datatype or operation of an atomic"},
	ProvWriteSendComp - ProvOther:       {"WRITE_SEND_COMP", "failure to report the end of a send"},
	ProvWriteRecvComp - ProvOther:       {"WRITE_RECV_COMP", "failure to report the end of a receive"},
	ProvDgramCQRead - ProvOther:         {"DGRAM_CQ_READ", "failure to read the completion queue of a datagram endpoint"},
	ProvSHMInternalError - ProvOther:    {"SHM_INTERNAL_ERROR", "error of the shared-memory provider"},
	ProvWriteSHMCQEntry - ProvOther:     {"WRITE_SHM_CQ_ENTRY", "failure to report a completion of the shared-memory provider"},
	ProvEstablishedUnresp - ProvOther:   {"ESTABLISHED_RECV_UNRESP", "unresponsive receiver (was reachable before)"},
	ProvInvalidPktTypeZcpy - ProvOther:  {"INVALID_PKT_TYPE_ZCPY_RX", "packet of a type that a receiver into its user's buffers does not take"},
	ProvUnestablishedUnresp - ProvOther: {"UNESTABLISHED_RECV_UNRESP", "unresponsive receiver (never reached)"},
	ProvPeerAborted - ProvOther:         {"PEER_ABORTED", "peer aborted the operation"},
}

// String describes the code.
func (p Provider) String() string {
	if p < ProvOther {
		if p > 255 { // no device's status has more bits
			return fmt.Sprintf("status %d", uint16(p))
		}
		return device.Status(p).String()
	}
	if i := int(p - ProvOther); i < len(provTexts) {
		return provTexts[i].text
	}
	return fmt.Sprintf("provider code %d", uint16(p))
}

// Name is the provider's name of its own code, without the prefix FI_EFA_ERR_; "" of a
// device's status and of a number that is none.
func (p Provider) Name() string {
	if i := int(p) - int(ProvOther); i >= 0 && i < len(provTexts) {
		return provTexts[i].name
	}
	return ""
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
