package trail

import "github.com/efactor/efactor/runtime/trace"

// Kind is what happened. The comment says who is meant by Span and what the other
// words of the record hold; B and Code are 0 where nothing is said.
type Kind uint8

// The kinds of record.
const (
	// Gap: records are missing here, of whatever span. A: how many.
	Gap Kind = trace.Gap

	// Begin: an operation began. Code: its Role; A: bytes; B: its Flags.
	Begin Kind = iota
	// Parent: the application has a span that the operation is part of. A: the
	// request's ID, under which that can be found.
	Parent
	// With: the peer that the operation is with. A: the peer's span.
	With
	// Tag: A: the tag of a tagged message.
	Tag
	// Waits: something must come before the operation goes on. Code: Reason.
	Waits
	// GoesOn: it has come. Code: Reason, 0: the peer takes packets again.
	GoesOn
	// Chosen: its turn came, and this is the subprotocol that carries it, or that
	// takes the place of the one before. Code: its number (ope.Proto); A and B: the
	// Key that both sides know the operation by, A is 0 if there is none.
	Chosen
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
	// SegmentDone: it ended well. Code: device.WR; A: offset; B: bytes.
	SegmentDone
	// RNR: a packet of the operation, or of a peer's own, met a receiver that was
	// not ready. Code: wire.Type.
	RNR
	// Unexpected: no receive was posted for the message.
	Unexpected
	// Matched: the receive Span got the message whose life so far is that of A.
	Matched
	// Answer: a packet that answers. Code: wire.Type; B: 1 if it came, 0 if it went.
	Answer
	// Restarted: a handler of the operation, peer or endpoint panicked.
	Restarted
	// Told: the application was given the outcome. Code: Outcome; A: bytes; B: by
	// what Log.Err gives the error. The operation may go on without it.
	Told
	// End: the operation is over. Code, A and B as of Told.
	End

	// PeerBegin: a peer came into being; the records that follow tell its address.
	PeerBegin
	// Address: eight bytes of the raw address of a peer or of the endpoint. A: the
	// bytes, little-endian; B: 0 to 3.
	Address
	// Replaces: the peer has taken the place of another one, whose connid was
	// another: A: its span.
	Replaces
	// HandshakeSent, HandshakeReceived: B: device_version; A: first word of extra_info.
	HandshakeSent
	HandshakeReceived
	// BackoffBegin, BackoffEnd: nothing is posted to the peer. A: nanoseconds,
	// planned and then real.
	BackoffBegin
	BackoffEnd
	// Probe: is anybody there?
	Probe
	// PeerEnd: the peer failed, or was removed. Code and B as of Told.
	PeerEnd

	// EndpointBegin: the records that follow tell its address. EndpointEnd: Code and B
	// as of Told.
	EndpointBegin
	EndpointEnd
	// Pressure, Relieved: memory of unexpected messages is used up, or not any more.
	// A: bytes held.
	Pressure
	Relieved

	NumKinds
)

// Kinds is a set of them.
type Kinds uint64

// Sets of kinds.
const (
	// Everything is what traces are made of.
	Everything Kinds = 1<<NumKinds - 1
	// Outcomes is what tells how long operations take and how they end.
	Outcomes Kinds = 1<<Gap | 1<<Begin | 1<<Chosen | 1<<Matched | 1<<Told | 1<<End
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
	NumRoles
)

// Ours tells whether the application asked for the operation.
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

// The reasons. What is left out shows by itself: CTS, data, answers, a receive.
const (
	ForTurn      Reason = iota + 1 // others are before it in the peer's line
	ForHandshake                   // the peer's HANDSHAKE
	ForBackoff                     // the end of back-off after RNR
	ForRoom                        // room in the send queue
	ForMemory                      // memory to read into
	ForArrival                     // messages before it that are too far behind
	NumReasons
)

// KeyKind is which id a Key holds. Both sides choose the same for an operation.
type KeyKind uint8

// The kinds of id, in the order of preference.
const (
	NoKey  KeyKind = iota // no packet names the operation
	MsgID                 // of messages and atomics
	SendID                // of writes: the requester's
	RecvID                // of reads: the requester's
)

// Connids are those of requester and responder, as a record holds them.
func Connids(requester, responder uint32) uint64 { return uint64(requester)<<32 | uint64(responder) }

// Outcome is how something ended.
type Outcome uint8

// The outcomes.
const (
	OK Outcome = iota
	Failed
)
