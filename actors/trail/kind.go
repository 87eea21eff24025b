package trail

// Kind is what happened. Its comment says whose span Span is and what the other
// words of the record hold; B and Code are 0 where the comment says nothing.
type Kind uint8

// The kinds of record.
const (
	// Gap: records are missing here, of any span. A: how many.
	Gap Kind = iota
	// Begin: an operation began. Code: its Role; A: bytes; B: its Flags.
	Begin
	// Parent: the application has a span that the operation is part of. A: the
	// request's ID, under which that can be found.
	Parent
	// With: the peer that the operation is with. A: the peer's span.
	With
	// Tag: A: the tag of a tagged message.
	Tag
	// Waits: something must come before the operation goes on. Code: Reason.
	Waits
	// GoesOn: the wait is over. Code: Reason, 0: the peer takes packets again.
	GoesOn
	// Chosen: the operation's turn came, and this is the subprotocol that carries
	// it, or that replaces the one before. Code: its number (ope.Proto); A and B:
	// the Key by which both sides know the operation, A is 0 if there is none.
	Chosen
	// Sent: packets were posted. Code: wire.Type of the first; A: bytes of the
	// message in them; B: how many.
	Sent
	// Acked: all packets in flight have arrived. A: bytes of the message in them.
	Acked
	// Window: a CTS was received or sent. Code: 1 if received; A: bytes granted.
	Window
	// Received: packets with data arrived. Code: wire.Type of the first; A: bytes;
	// B: how many.
	Received
	// Segment: an RDMA request was posted. Code: device.WR; A: offset; B: bytes.
	Segment
	// SegmentDone: it ended well. Code: device.WR; A: offset; B: bytes.
	SegmentDone
	// RNR: a packet of the operation, or of a peer's own, met a receiver that was
	// not ready. Code: wire.Type.
	RNR
	// Unexpected: no receive was posted for the message.
	Unexpected
	// Matched: the receive Span matched the message whose records so far have span
	// A.
	Matched
	// Answer: a response packet. Code: wire.Type; B: 1 if it was received, 0 if
	// sent.
	Answer
	// Restarted: a handler of the operation, peer or endpoint panicked.
	Restarted
	// Told: the application has the outcome. Code: Outcome; A: bytes; B: the key of
	// the error for Log.Err. The operation may go on without it.
	Told
	// End: the operation is over. Code, A and B as of Told.
	End
	// Dropped: the request is over, and operations that began since did what it was for.
	Dropped

	// PeerBegin: a peer was created; the records that follow hold its address.
	PeerBegin
	// Address: eight bytes of the raw address of a peer or of the endpoint. A: the
	// bytes, little-endian; B: 0 to 3; Code: the path that it is on.
	Address
	// Replaces: the peer replaces another one, whose connid differed. A: that one's
	// span.
	Replaces
	// HandshakeSent, HandshakeReceived: B: device_version; A: first word of extra_info.
	HandshakeSent
	HandshakeReceived
	// BackoffBegin, BackoffEnd: nothing is posted to the peer. A: nanoseconds,
	// planned and then real.
	BackoffBegin
	BackoffEnd
	// Probe: a silent peer is asked for a sign of life.
	Probe
	// PeerEnd: the peer failed or was removed. Code and B as of Told.
	PeerEnd

	// EndpointBegin: the records that follow hold its address. EndpointEnd: Code and B
	// as of Told.
	EndpointBegin
	EndpointEnd
	// Pressure, Relieved: memory of unexpected messages is used up, or no longer. A:
	// bytes held.
	Pressure
	Relieved

	// HostID: HANDSHAKE, whose record follows, says on which host the peer is. A: host_id.
	HostID

	NumKinds
)

// Kinds is a set of them.
type Kinds uint64

// Sets of kinds.
const (
	// Everything is the set of kinds that traces are made of.
	Everything Kinds = 1<<NumKinds - 1
	// Outcomes is the set of kinds from which durations and outcomes of operations
	// follow.
	Outcomes Kinds = 1<<Gap | 1<<Begin | 1<<Chosen | 1<<Matched | 1<<Told | 1<<End | 1<<Dropped
)

// Role is an operation's part.
type Role uint8

// The roles: the application's own operations, then those of a peer.
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
	NumRoles
)

// Ours reports whether the application asked for the operation.
func (r Role) Ours() bool { return r < Message }

// Flags of Begin.
const (
	FlagTagged  = 1 << iota // a tagged message
	FlagData                // remote CQ data
	FlagDeliver             // delivery complete
	FlagInject
)

// Reason is what an operation waits for.
type Reason uint8

// The reasons. Other waits show by themselves: for CTS, data, answers, a receive.
const (
	ForTurn      Reason = iota + 1 // others are before it in the peer's line
	ForHandshake                   // the peer's HANDSHAKE
	ForBackoff                     // the end of back-off after RNR
	ForRoom                        // room in the send queue
	ForMemory                      // memory to read into
	ForArrival                     // messages before it that are too far behind
	NumReasons
)

// KeyKind is the kind of id that a Key holds. Both sides choose the same for an
// operation.
type KeyKind uint8

// The kinds of id, in the order of preference.
const (
	NoKey  KeyKind = iota // no packet names the operation
	MsgID                 // of messages and atomics
	SendID                // of writes: the requester's
	RecvID                // of reads: the requester's
)

// Connids holds those of requester and responder, as a record does.
func Connids(requester, responder uint32) uint64 { return uint64(requester)<<32 | uint64(responder) }

// Outcome is how something ended.
type Outcome uint8

// The outcomes.
const (
	OK Outcome = iota
	Failed
)
