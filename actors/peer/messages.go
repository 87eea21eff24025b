package peer

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// Submit asks a peer for a msg_id and a packet entry (endpoint -> peer).
type Submit struct {
	shard.Message
	Turn *Turn
}

// Grant gives a txe its turn (peer -> txe): Turn.MsgID is spent, and Pke is for
// the first packet, to be posted at once.
type Grant struct {
	shard.Message
	Turn *Turn
	Pke  *device.Pke
}

// Refused ends an operation that needs a feature that the peer lacks
// (peer -> txe, rxe). No msg_id was spent.
type Refused struct {
	shard.Message
	Turn *Turn
	Err  error
}

// Withdraw asks the peer to take an operation out of its line (endpoint -> peer).
// The peer answers the operation with Withdrawn.
type Withdraw struct {
	shard.Message
	turn *Turn
	use  uint32 // of turn, which may be that of a later operation by now
	id   uint64 // of the request, echoed
}

// Withdrawn answers Withdraw: the txe left the line and no msg_id was spent, or
// its turn had come already.
type Withdrawn struct {
	shard.Message
	ID uint64
	OK bool
}

// Blocked asks the peer to say when the link is open (operation -> peer): embedded
// in operations.
type Blocked struct {
	shard.Message
	Op     shard.Ref
	resume Resume
	next   *Blocked
	AnyOf  bool // control packets need no HANDSHAKE
	queued bool
}

// Resume says that the link is open again (peer -> operation).
type Resume struct{ shard.Message }

// Await asks l's peer to resume op when packets may be posted: data once
// HANDSHAKE came and back-off is over, control packets after back-off alone.
func (h *Blocked) Await(l *Link, op shard.Ref, control bool) {
	if h.queued {
		return
	}
	h.queued, h.Op, h.AnyOf = true, op, control
	l.env.Sh.Tell(l.Peer, h)
}

// Queued reports whether a Resume is still to come.
func (h *Blocked) Queued() bool { return h.queued }

// Resumed notes that the operation has seen the Resume.
func (h *Blocked) Resumed() { h.queued = false }

// Arrive hands an RTM in its turn to the endpoint (peer -> endpoint).
type Arrive struct {
	shard.Message
	Pkt *Packet
}

// Deliver hands a packet to the operation that it belongs to (peer or endpoint
// -> operation).
type Deliver struct {
	shard.Message
	Pkt *Packet
}

// Stranger hands the endpoint a packet whose connid is not that of the peer now
// at its address (peer -> endpoint): a former endpoint's, or a new one's (§4.4).
type Stranger struct {
	shard.Message
	Pkt  *device.RecvPkt
	Link *Link
}

// ConnIDChecked says whether the peer is at its queue pair (peer -> endpoint).
type ConnIDChecked struct {
	shard.Message
	Link *Link
	OK   bool
}

// Wrote tells the endpoint of an RDMA write with immediate data (peer ->
// endpoint, which frees it).
type Wrote struct {
	shard.Message
	Link *Link
	Len  int
	Data uint32

	pool *Pool
	next *Wrote
}

// Free gives the message back.
func (w *Wrote) Free() { w.next, w.pool.wrotes = w.pool.wrotes, w }

func (l *Pool) getWrote() *Wrote {
	w := l.wrotes
	if w == nil {
		return &Wrote{pool: l}
	}
	l.wrotes = w.next
	return w
}

// Intruded tells the endpoint that its device refused an access of the peer's
// (peer -> endpoint).
type Intruded struct {
	shard.Message
	Link  *Link
	Guess bool // of a key that names nothing here, and did not lately
}

// BadPacket says that a packet was dropped which no endpoint sends, or which may not be taken
// for reasons of trust (peer -> endpoint).
type BadPacket struct {
	shard.Message
	Link *Link // nil: of no peer that is known
	Err  error
}

// Nacked tells the peer that a read-based message was refused with READ_NACK: the
// long-CTS packet with the same msg_id goes to Rx, or is dropped if that is zero
// (rxe -> peer, §4.7).
type Nacked struct {
	shard.Message
	MsgID uint32
	Rx    shard.Ref
}

// Fail tells an operation that its peer has failed (peer -> operation), or that
// its endpoint closes (endpoint -> operation).
type Fail struct {
	shard.Message
	Link *Link  // of the peer; an operation with another is a later use. nil: the endpoint closes
	use  uint32 // of the operation's Member that it is for; 0: of no certain one
	Err  error
}

// Concerns reports whether the message is for the present use of the operation with l and m,
// which may have ended and begun again since the message was sent.
func (f *Fail) Concerns(l *Link, m *Member) bool {
	return f.Link == nil || f.Link == l && (f.use == 0 || f.use == m.use)
}

// SendFailed tells the owner of a packet that it will never arrive
// (peer -> operation). The owner frees the entry.
type SendFailed struct {
	shard.Message
	Pke    *device.Pke
	Status device.Status
	Err    error
}

// Down tells the endpoint that a peer has failed (peer -> endpoint).
type Down struct {
	shard.Message
	Link  *Link
	Err   error
	Again bool // it was told before, and our direction has not been open since
}

// Up tells the endpoint that a peer that had failed is back (peer -> endpoint).
type Up struct {
	shard.Message
	Link *Link
}

// Burial tells the endpoint that a peer which failed will not come back (peer -> endpoint).
type Burial struct {
	shard.Message
	Link *Link
}

// Remove ends a peer: what is in progress with it fails (endpoint -> peer).
type Remove struct {
	shard.Message
	Err  error
	Tell bool // the endpoint is to hear of it, with Down
	Lost bool // for a msg_id of ours that is lost
	Away bool // only if the peer has failed and is not back
}

// OverLimit says that a peer is over PeerMemory (peer -> endpoint).
type OverLimit struct {
	shard.Message
	Link *Link
}

// WithinLimit says that a peer is well below it again (peer -> endpoint).
type WithinLimit struct {
	shard.Message
	Link *Link
}

// backoffOver ends a back-off that began at since.
type backoffOver struct {
	shard.Message
	timer shard.Timer
	since clock.Time
}

// watchTick is when to look whether the peer is still alive.
type watchTick struct {
	shard.Message
	timer shard.Timer
	due   clock.Time
}

// gotThrough tells a peer in back-off that a packet arrived (operation -> peer).
type gotThrough struct{ shard.Message }

var through gotThrough

// lineOpen tells the peer that what held up the line has arrived
// (operation -> peer).
type lineOpen struct{ shard.Message }

var lineFree lineOpen

// failNotified comes back to a peer that has failed when all its operations have heard of that:
// before, nothing may take it back, or they would not know that there was a failure.
type failNotified struct{ shard.Message }

var allNotified failNotified

// knocks asks the peer to probe (endpoint -> peer).
type knocks struct{ shard.Message }

var knock knocks
