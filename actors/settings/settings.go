package settings

import (
	"time"
)

// Settings are the switch points and times of the protocol. The zero value of a field means
// its default. The names in brackets are the EFA provider's.
type Settings struct {
	// SendQueue is how many packets the device may have at a time (FI_EFA_TX_SIZE), at
	// most Limits.MaxSQ; 0: 256.
	SendQueue int
	// RecvQueue is the number of receive buffers (FI_EFA_RX_SIZE), at most Limits.MaxRQ;
	// 0: 256.
	RecvQueue int

	// Refill is how many receive buffers are given back to the device at a time
	// (FI_EFA_INTERNAL_RX_REFILL_THRESHOLD), at most half of RecvQueue; 0: 8, or that half if it
	// is less.
	Refill int

	// MaxMedium is up to how many bytes a message needs no CTS (§3.2,
	// FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE); 0: the device's, EFA's is 65536; negative:
	// every message of several packets needs one.
	MaxMedium int
	// MinRead is from how many bytes on the receiver's device reads a message out of a
	// memory region (§4.1, FI_EFA_INTER_MIN_READ_MESSAGE_SIZE); 0: the device's, EFA's is
	// 1 MiB; negative: none is read.
	MinRead int
	// MinReadWrite is the same of a write that the devices cannot do by themselves
	// (FI_EFA_INTER_MIN_READ_WRITE_SIZE); 0: the device's, EFA's is 65536; negative: none.
	MinReadWrite int
	// MinRegister is from how many bytes on memory that is in no region is registered for the
	// operation whose buffer it is, on a device that wants registered memory; 0: the
	// device's, EFA's is 65536; negative: never. See DomainConfig.Registrations.
	MinRegister int
	// MaxCopy is up to how many bytes are copied into their packet although they lie in
	// registered memory, from which the device could take them (MAX_MEMCPY_SIZE); 0: 4096;
	// negative: all are.
	MaxCopy int
	// ReadSegment is the most bytes that one RDMA request moves
	// (FI_EFA_READ_SEGMENT_SIZE), at most Limits.MaxRDMA if the device has RDMA; 0: 1 GiB, or
	// what each of the devices can if that is less.
	ReadSegment int
	// RuntSize is how many bytes of a message that is read are sent at once (§4.3,
	// FI_EFA_RUNT_SIZE), to one peer at a time; 0: none.
	RuntSize int
	// Credits is the number of packets in a CTS window (§3.2, FI_EFA_TX_MIN_CREDITS), at
	// most 1<<20; 0: 32.
	Credits int
	// RecvWindow is how many messages may arrive ahead of their turn
	// (FI_EFA_RECVWIN_SIZE), at most 1<<20; 0: 16.
	RecvWindow int

	// RNRRetry is how often the device sends a packet again before it reports RNR, 0 to
	// 7, where 7 is for ever; negative: never; 0: 3.
	RNRRetry int
	// RNRInitial is the first back-off after RNR (FI_EFA_TIMEOUT_INTERVAL), at most RNRMax; 0: random,
	// 40 to 119 us.
	RNRInitial time.Duration
	// RNRMax is the longest back-off (FI_EFA_MAX_TIMEOUT), a quarter of PeerTimeout at most; 0: 1 s.
	RNRMax time.Duration
	// ProbeAfter is for how long a peer is silent before it is probed, a quarter of PeerTimeout at
	// most, so that the probe has time to be answered; 0: 1 s.
	ProbeAfter time.Duration
	// PeerTimeout is for how long no packet comes from a peer, and it takes none, before
	// it has failed; 0: 10 s. A peer that computes for long with full receive buffers
	// wants more.
	PeerTimeout time.Duration

	// PeerMemory is the most bytes kept of one peer's unexpected messages; 0: 256 MiB.
	// Above it that peer is held back until receives are posted, and an event tells of
	// it; nothing is lost. An EFA card cannot do that: there the event is all. At most
	// 1<<60, as TotalMemory.
	PeerMemory int64
	// TotalMemory is the most bytes kept of all unexpected messages; 0: 1 GiB. Above it
	// all peers are held back but for a slow flow, which ends at a quarter more, or 64
	// MiB if that is more.
	TotalMemory int64
	// MaxUnlistedPeers is how many peers that are in no address vector are kept ready at a time
	// (FI_EFA_IMPLICIT_AV_SIZE); 0: 4096. Beyond it those that are idle go, about the one first
	// that was not heard for longest, and 16 times as many are remembered, in 100 bytes each, so
	// that they go on where they were. If none is idle further ones are held back until one is,
	// and an event tells of it; nothing is lost. An EFA card holds nobody back: there they count
	// as memory, up to TotalMemory. A host has three quarters of the places at most.
	MaxUnlistedPeers int
	// DetachLimit is the most bytes copied for a send whose context ended; 0: 1 MiB.
	DetachLimit int

	// NoRDMARead and NoRDMAWrite make the endpoint do without these abilities of its
	// device (both: FI_EFA_USE_DEVICE_RDMA=0).
	NoRDMARead, NoRDMAWrite bool
	// Homogeneous takes it for granted that all peers can do what this endpoint can, so
	// that nothing but CTSDATA waits for their HANDSHAKE (§2.1,
	// FI_OPT_EFA_HOMOGENEOUS_PEERS).
	Homogeneous bool
	// AnnounceAborts has an endpoint on EFA tell its peers that it knows PEER_ERROR, and send it to
	// those that say the same: a send beyond DetachLimit that is given up then ends there at once.
	// Without it such a send goes on until the peer has it, at most PeerTimeout, then the peer has
	// failed. libfabric has PEER_ERROR from 2.7 on, with which this was not run. Elsewhere endpoints
	// always announce it; with Homogeneous none is sent for a message. One that comes is read in any case.
	AnnounceAborts bool

	knobs Knobs
}

// KnobsOf returns what only tests set. It is no method, so that programs, which have Settings by
// another name, do not meet it.
func KnobsOf(s *Settings) *Knobs { return &s.knobs }
