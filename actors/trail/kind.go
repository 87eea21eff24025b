package trail

// Kind is what happened. The comment says who is meant by Span and what the other
// words of the record hold; B and Code are 0 where nothing is said.
type Kind uint8

// The kinds of record.
const (
	// Begin: an operation began. Code: its Role; A: bytes; B: its Flags.
	Begin Kind = iota + 1
	// With: the peer that the operation is with. A: the peer's span.
	With
	// Tag: A: the tag of a tagged message.
	Tag
	// Waits: something must come before the operation goes on. Code: Reason.
	Waits
	// GoesOn: it has come. Code: Reason.
	GoesOn
	// Turn: the peer granted the operation its turn. B: msg_id, if Code is 1.
	Turn
	// Chosen: the subprotocol. Code: its number (ope.Proto); A: bytes.
	Chosen
	// Key: what both sides know the operation by. Code: KeyKind; A: requester's
	// connid in the upper half, responder's in the lower; B: the id.
	Key
	// Sent: packets were posted. Code: wire.Type of the first; A: bytes of the
	// message in them; B: how many.
	Sent
	// Acked: all packets under way have arrived. A: bytes of the message that have.
	Acked
	// Window: CTS came or went. Code: 1 if it came; A: bytes granted.
	Window
	// Received: packets with data came. Code: wire.Type of the first; A: bytes;
	// B: how many.
	Received
	// Segment: an RDMA request was posted. Code: device.WR; A: offset; B: bytes.
	Segment
	// SegmentDone: it ended well. A: offset; B: bytes.
	SegmentDone
	// RNR: a packet of the operation met a receiver that was not ready.
	RNR
	// Unexpected: no receive was posted for the message.
	Unexpected
	// Matched: the receive Span got the message whose life so far is that of A.
	Matched
	// Answer: a packet that answers. Code: wire.Type; B: 1 if it came, 0 if it went.
	Answer
	// Told: the application was given the outcome. Code: Outcome, whose error Log.Err
	// gives; A: bytes. The operation may go on without it.
	Told
	// End: the operation is over. Code and A as of Told.
	End

	// PeerBegin: a peer came into being; Log.Address tells its address.
	PeerBegin
	// HandshakeSent, HandshakeReceived: B: device_version; A: first word of extra_info.
	HandshakeSent
	HandshakeReceived
	// BackoffBegin, BackoffEnd: nothing is posted to the peer. A: nanoseconds,
	// planned and then real.
	BackoffBegin
	BackoffEnd
	// Probe: is anybody there?
	Probe
	// PeerEnd: the peer failed, or was removed. Code as of Told.
	PeerEnd

	// EndpointBegin: Log.Address tells its address. EndpointEnd: Code as of Told.
	EndpointBegin
	EndpointEnd
	// Pressure, Relieved: memory of unexpected messages is used up, or not any more.
	// A: bytes held.
	Pressure
	Relieved

	NumKinds
)

// Role is an operation's part.
type Role uint8

// The roles: what the application asked for, then what a peer asked for.
const (
	Send Role = iota + 1
	Receive
	Write
	Read
	AtomicWrite
	AtomicFetch
	AtomicCompare
	Message     // of a peer's, until a receive matches it
	TargetWrite // a peer's write into our memory
	TargetRead  // a peer's read of our memory
	TargetAtomic
	Reply // an answer that has no life of its own: ATOMRSP, RECEIPT, PEER_ERROR
	NumRoles
)

// Flags of Begin.
const (
	FlagTagged  = 1 << iota // a tagged message
	FlagData                // remote CQ data
	FlagDeliver             // delivery complete
	FlagInject
)

// Reason is what an operation waits for.
type Reason uint8

// The reasons.
const (
	ForTurn      Reason = iota + 1 // others are before it in the peer's line
	ForHandshake                   // the peer's HANDSHAKE
	ForBackoff                     // the end of back-off after RNR
	ForRoom                        // room in the send queue
	ForCTS                         // the receiver's CTS
	ForData                        // the other side's data
	ForAnswer                      // RECEIPT, EOR, READRSP or ATOMRSP
	ForMatch                       // a receive
	ForMessage                     // a message that matches
	ForAck                         // the device's word that packets arrived
	ForRDMA                        // RDMA requests that the device has
	NumReasons
)

// KeyKind is which id a Key holds. Both sides choose the same for an operation.
type KeyKind uint8

// The kinds of id, in the order of preference.
const (
	MsgID  KeyKind = iota + 1 // of messages and atomics
	SendID                    // of writes: the requester's
	RecvID                    // of reads: the requester's
	NumKeyKinds
)

// Outcome is how something ended.
type Outcome uint8

// The outcomes.
const (
	OK Outcome = iota
	Failed
)
