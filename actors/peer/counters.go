package peer

// Counters are an endpoint's, counted by its peers and operations, one writer
// (the shard). Names of dropped input say what was wrong with it.
type Counters struct {
	PacketsRecv [256]uint64 // by packet type
	PacketsSent [256]uint64

	HandshakesSent, HandshakesRecv uint64
	Resent                         uint64 // packets sent again after RNR
	Backoffs                       uint64 // times that a peer entered back-off
	BackoffsCut                    uint64 // of them, ended by a packet that got through
	BackoffNanos                   uint64
	OutOfOrder                     uint64 // messages kept for their turn
	Overflow                       uint64 // of them, beyond the reorder window
	Probes                         uint64
	PeersFailed                    uint64
	PeersReturned                  uint64 // times that one which had failed was taken back
	PeersSilent                    uint64 // of them, those that did not respond
	Unexpected                     uint64
	StrangersHeld                  uint64 // times that one was held back for want of room
	StrangersRested                uint64 // times that one was let go until it is heard again
	Copied                         uint64 // bytes of messages that were copied here, the device's own copies aside
	NACKsSent, NACKsRecv           uint64
	PeerErrorsSent, PeerErrorsRecv uint64
	Aborted                        uint64 // messages that the peer took back

	// Violations are steps that the tables of the operations do not have: errors of this
	// module, each of which ends an operation.
	Violations uint64

	// Input that was dropped.
	BadShort       uint64 // shorter than its header says
	BadType        uint64 // unknown, retired or internal packet type
	BadVersion     uint64
	BadLength      uint64 // a length or offset that does not fit
	Malformed      uint64 // of them, packets of messages, which ended
	BadID          uint64 // an operation id that is not in use
	NoRoom         uint64 // a request that no operation was free to answer
	StaleMsgID     uint64 // a msg_id that was processed already
	AbortedLate    uint64 // a packet of a message that the peer has taken back
	StaleConnID    uint64 // from a former endpoint with the same GID and QPN
	NoAddress      uint64 // a stranger that does not say who it is
	Crowded        uint64 // a stranger that is not let in for reasons of trust
	PeerOverMemory uint64
	PeersCrowded   uint64 // times that a peer came over PeerMemory
	PeerDown       uint64 // from a peer that has failed
	Refused        uint64 // an access to memory: the key, the range or the right was wrong
	RefusedKeys    uint64 // of them, keys that name nothing
}
