package efa

import (
	"time"

	"github.com/efactor/efactor/actors/ope"
)

// EndpointConfig says what endpoint to make. Only AV is required.
type EndpointConfig struct {
	AV           *AddressVector
	SendQueue    *Queue   // for posted sends, writes, reads and atomics; may be the same as RecvQueue
	RecvQueue    *Queue   // for posted receives, and peers' writes with data
	SendCounter  *Counter // of sends; all counters may be the same
	RecvCounter  *Counter // of receives
	WriteCounter *Counter // of writes, and of atomics that fetch nothing
	ReadCounter  *Counter // of reads, and of atomics that fetch
	// RemoteWriteCounter counts peers' writes with data, and nothing else that
	// they do here.
	RemoteWriteCounter *Counter

	Caps         Caps
	Level        Level  // default completion level
	TxDepth      int    // most sends, writes, reads and atomics in progress, see Limits; 0: 1024
	RxDepth      int    // most receives posted or in progress; 0: 16384
	QPN          uint16 // queue pair number; 0: any free one
	EventBacklog int    // events kept for NextEvent; 0: 256

	Protocol ProtocolConfig
}

// ProtocolConfig are the switch points and times of the protocol. Zero values
// mean the default; the names in brackets are the EFA provider's.
type ProtocolConfig struct {
	SendQueue   int           // packets with the device (FI_EFA_TX_SIZE), at most Limits.MaxSQ; 0: 256
	RecvQueue   int           // receive buffers (FI_EFA_RX_SIZE), at most Limits.MaxRQ; 0: 256
	MaxMedium   int           // bytes up to which a message needs no CTS (FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE); 0: the device's, EFA's is 65536; negative: none
	Credits     int           // packets in a CTS window (FI_EFA_TX_MIN_CREDITS); 0: 32
	RecvWindow  int           // messages in the reorder window (FI_EFA_RECVWIN_SIZE); 0: 16
	RNRRetry    int           // resends by the device before RNR is reported, 0 to 7, 7 for ever; negative: none, 0: 3
	RNRInitial  time.Duration // first back-off (FI_EFA_TIMEOUT_INTERVAL); 0: random 40 to 119 us
	RNRMax      time.Duration // longest back-off (FI_EFA_MAX_TIMEOUT); 0: 1 s
	ProbeAfter  time.Duration // silence of a peer before it is probed; 0: 1 s
	PeerTimeout time.Duration // no packet from it, and none that it took: it has failed; 0: 10 s. A peer that computes for long with full receive buffers wants more
	PeerMemory  int64         // bytes kept of one peer's unexpected messages; 0: 256 MiB
	TotalMemory int64         // bytes kept of all unexpected messages; 0: 1 GiB
	DetachLimit int           // bytes copied for a send whose context ended; 0: 1 MiB

	// MinRead is from how many bytes on the receiver's device reads a message
	// out of a MemoryRegion (FI_EFA_INTER_MIN_READ_MESSAGE_SIZE), and
	// MinReadWrite the same of a write that the devices cannot do by
	// themselves (FI_EFA_INTER_MIN_READ_WRITE_SIZE). 0: the device's, EFA's are
	// 1 MiB and 65536; negative: none.
	MinRead, MinReadWrite int
	// ReadSegment is the most bytes that one RDMA request moves
	// (FI_EFA_READ_SEGMENT_SIZE). 0: 1 GiB, or what the device can.
	ReadSegment int
	// RuntSize is how many bytes of a message that is read are sent at once
	// (FI_EFA_RUNT_SIZE), to one peer at a time. 0: none.
	RuntSize int
	// NoRDMARead and NoRDMAWrite make the endpoint do without these abilities
	// of its device (both: FI_EFA_USE_DEVICE_RDMA=0).
	NoRDMARead, NoRDMAWrite bool
	// Homogeneous takes it for granted that all peers can do what this endpoint
	// can, so that first operations do not wait for their HANDSHAKE
	// (FI_OPT_EFA_HOMOGENEOUS_PEERS).
	Homogeneous bool

	// Era is a release of libfabric to talk like, for tests of what old peers do:
	// one at which something changed on the wire (1.10, 1.12, 1.13, 1.14, 1.16,
	// 1.17.0, 1.18, 1.20, 1.22, 2.0, 2.3.1, 2.6), or "main". "": this project's
	// own way.
	Era string
	// FirstMsgID is where both directions begin to count, for tests of the
	// wrap-around; all endpoints that talk must agree.
	FirstMsgID uint32
	// ConnID is the endpoint's connid, 0 for a random one.
	ConnID uint32
	// WaitHandshake makes first messages wait for the peer's HANDSHAKE.
	WaitHandshake bool
	// Rounding is how medium messages are cut.
	Rounding ope.Rounding
	// HostID goes into HANDSHAKE; 0: none.
	HostID uint64
}

// counters are all that the endpoint counts in, some of them nil.
func (cfg *EndpointConfig) counters() [5]*Counter {
	return [...]*Counter{cfg.SendCounter, cfg.RecvCounter, cfg.WriteCounter, cfg.ReadCounter, cfg.RemoteWriteCounter}
}
