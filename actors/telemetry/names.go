package telemetry

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// Scope is the name of the tracer and the meter.
const Scope = "github.com/efactor/efactor"

// system is the value of messaging.system.
const system = "efa_rdm"

// Name is an exported name and its meaning.
type Name struct{ Name, Text string }

// Spans are the names of spans.
var Spans = []Name{
	{spanSend, "a message that the application sends"},
	{spanReceive, "a receive, together with the message that matched it, from its first packet on"},
	{spanWrite, "a write to a peer's memory; at the target (kind server) the same, except for plain eager writes and RDMA"},
	{spanRead, "a read of a peer's memory; at the target the same, except for RDMA"},
	{spanAtomic, "an atomic; at the target the same"},
	{spanUnmatched, "a message that ended before a receive took it"},
	{spanEndpoint, "an endpoint, from Enable to its end"},
	{spanPeer, "a peer, from the first contact to its end; within the endpoint's"},
	{spanHandshake, "from the first contact until the peer's HANDSHAKE arrived; within the peer's"},
	{spanBackoff, "an episode of back-off, if sampled or slow; within the peer's"},
}

// Attributes are those of spans and events.
var Attributes = []Name{
	{string(attrSystem), "`" + system + "`"},
	{string(attrOperation), "the span's name"},
	{string(attrOperationType), "`send`, `receive`; of messages"},
	{string(attrClientID), "connid of this endpoint"},
	{string(attrBodySize), "bytes of the message, at its sender"},
	{string(attrPeerAddress), "GID of the peer"},
	{string(attrPeerPort), "queue pair number of the peer"},
	{string(attrErrorType), "libfabric's number (`FI_ETRUNC`), or a word for errors without one (`peer_died`)"},
	{string(attrKey), "the operation's identifier on both sides, see above"},
	{string(attrTag), "of a tagged message, in hexadecimal"},
	{string(attrProtocol), "subprotocol, the last one chosen"},
	{string(attrBytes), "bytes that the operation moved, or that an event is about"},
	{string(attrPeerURI), "the peer's address as efa.Address has it, on the device that leads to it: `shm://[fe80::1]:7:99`; as on the page of package efadebug"},
	{string(attrPeerHandle), "the peer's handle in the address vector, the number in errors; missing if it is not in it"},
	{string(attrPeerName), "what the address vector calls the peer (InsertNamed, SetName), `rank 3 on node7` for instance; missing if it has no name"},
	{string(attrPeerConnID), "connid of the peer"},
	{string(attrCQData), "there is remote CQ data"},
	{string(attrDeliver), "delivery complete was requested"},
	{string(attrInject), "it was injected"},
	{string(attrSummary), "it was not sampled, but failed or was slow: intermediate events are missing"},
	{string(attrIncomplete), "records were lost, or the endpoint ended before it"},
	{string(attrDropped), "events beyond the first 100"},
	{string(attrPacketType), "of the first of the packets"},
	{string(attrPacketCount), "packets"},
	{string(attrDirection), "`sent`, `received`"},
	{string(attrRDMA), "`read`, `write`"},
	{string(attrOffset), "in the message or memory"},
	{string(attrSegmentCount), "RDMA requests"},
	{string(attrRNRCount), "packets that met a receiver which was not ready"},
	{string(attrWaitTime), "total seconds of waiting"},
	{string(attrWaitCount), "how often it waited within the phase"},
	{waitName(0), "seconds of waiting for its turn behind others to the same peer"},
	{waitName(1), "seconds of waiting for the peer's HANDSHAKE"},
	{waitName(2), "seconds of waiting for the end of back-off; of a peer, all of its back-off"},
	{waitName(3), "seconds of waiting for room in the send queue"},
	{waitName(4), "seconds of waiting for memory to read into"},
	{waitName(5), "seconds of waiting for the arrival of much earlier messages"},
	{string(attrReason), "the error in words"},
	{string(attrFeatures), "first word of HANDSHAKE's extra_info"},
	{string(attrDeviceVersion), "of HANDSHAKE"},
	{string(attrHostID), "of HANDSHAKE, 16 hexadecimal digits; missing if the peer sent none"},
	{string(attrPlanned), "seconds that the back-off was to last"},
	{string(attrBackoffCount), "episodes of back-off"},
	{string(attrOutcome), "`ok`, `failed`; of metrics"},
	{string(attrQueue), "name of the queue; of metrics"},
	{string(attrDevice), "name of the device; of metrics, see below"},
	{string(attrDeviceKind), "kind of the device: `shm`, `efa`, `tcp`, `sim`, or of several `shm,tcp`; of metrics, see below"},
	{string(attrEndpoint), "name of the endpoint (EndpointConfig.Name), if it has one; of metrics `_OTHER` from the 257th name of a Fabric on"},
}

func waitName(i int) string { return waits[i+1] }

// Events are those of spans.
var Events = []Name{
	{eventPosted, "the shard took the request"},
	{eventArrived, "the first packet arrived"},
	{eventProtocol, "its turn came and the subprotocol was chosen, or replaced another one (after READ_NACK)"},
	{eventSent, "packets were posted: one event for those of a phase"},
	{eventAcked, "packets have arrived; bytes of the message so far"},
	{eventReceived, "data arrived: one event for that of a phase"},
	{eventWindow, "CTS, a window of bytes; also the one in a read's request"},
	{eventSegment, "an RDMA request was posted"},
	{eventSegments, "RDMA requests have ended: one event for those of a phase"},
	{eventRNR, "packets met a receiver that was not ready"},
	{eventUnexpected, "there was no receive for the message"},
	{eventMatched, "a receive matched the message"},
	{waitName(0), "waited for its turn: one event for a phase, with the number and total time of the waits, as for all waits"},
	{waitName(1), "waited for the peer's HANDSHAKE"},
	{waitName(2), "waited for the end of back-off"},
	{waitName(3), "waited for room in the send queue"},
	{waitName(4), "waited for memory to read into"},
	{waitName(5), "waited for the arrival of much earlier messages"},
	{"efa.receipt", "RECEIPT: the data is in its place"},
	{"efa.eor", "EOR: the memory was read"},
	{"efa.readrsp", "READRSP, the answer to a read"},
	{"efa.atomrsp", "ATOMRSP, the answer to an atomic"},
	{"efa.read_nack", "READ_NACK: the memory cannot be read"},
	{"efa.peer_error", "PEER_ERROR: the operation was given up"},
	{eventAnswer, "another answer packet"},
	{eventCompleted, "the application has the outcome; for a target, the operation is over"},
	{eventFailed, "the same, without success"},
	{eventRestarted, "a handler panicked; the actor was restarted"},
	{eventHandshakeSent, "HANDSHAKE was sent to the peer"},
	{eventHandshakeReceived, "the peer's HANDSHAKE arrived"},
	{eventReplaces, "the peer has replaced another one, to which there is a link: a restarted process"},
	{eventProbe, "the peer was probed"},
	{eventPressure, "memory for unexpected messages is used up"},
	{eventRelieved, "it is no longer used up"},
}

// Names of spans. For operations they are messaging.operation.name, too. They
// contain no destination: there are many peers.
const (
	spanSend      = "send"
	spanReceive   = "receive"
	spanWrite     = "write"
	spanRead      = "read"
	spanAtomic    = "atomic"
	spanUnmatched = "unmatched"
	spanEndpoint  = "endpoint"
	spanPeer      = "peer"
	spanHandshake = "handshake"
	spanBackoff   = "backoff"
)

// Attributes.
const (
	attrSystem        = attribute.Key("messaging.system")
	attrOperation     = attribute.Key("messaging.operation.name")
	attrOperationType = attribute.Key("messaging.operation.type")
	attrClientID      = attribute.Key("messaging.client.id")
	attrBodySize      = attribute.Key("messaging.message.body.size")
	attrPeerAddress   = attribute.Key("network.peer.address")
	attrPeerPort      = attribute.Key("network.peer.port")
	attrErrorType     = attribute.Key("error.type")

	attrKey           = attribute.Key("efa.message.key")
	attrTag           = attribute.Key("efa.message.tag")
	attrProtocol      = attribute.Key("efa.protocol")
	attrBytes         = attribute.Key("efa.bytes")
	attrPeerURI       = attribute.Key("efa.peer.address")
	attrPeerHandle    = attribute.Key("efa.peer.handle")
	attrPeerName      = attribute.Key("efa.peer.name")
	attrPeerConnID    = attribute.Key("efa.peer.connid")
	attrCQData        = attribute.Key("efa.cq_data")
	attrDeliver       = attribute.Key("efa.delivery_complete")
	attrInject        = attribute.Key("efa.inject")
	attrSummary       = attribute.Key("efa.summary")
	attrIncomplete    = attribute.Key("efa.incomplete")
	attrDropped       = attribute.Key("efa.events.dropped")
	attrPacketType    = attribute.Key("efa.packet.type")
	attrPacketCount   = attribute.Key("efa.packet.count")
	attrDirection     = attribute.Key("efa.direction")
	attrRDMA          = attribute.Key("efa.rdma.operation")
	attrOffset        = attribute.Key("efa.rdma.offset")
	attrSegmentCount  = attribute.Key("efa.rdma.count")
	attrRNRCount      = attribute.Key("efa.rnr.count")
	attrWaitTime      = attribute.Key("efa.wait.time")
	attrWaitCount     = attribute.Key("efa.wait.count")
	attrReason        = attribute.Key("efa.reason")
	attrFeatures      = attribute.Key("efa.features")
	attrDeviceVersion = attribute.Key("efa.device_version")
	attrHostID        = attribute.Key("efa.host_id")
	attrPlanned       = attribute.Key("efa.backoff.planned")
	attrBackoffCount  = attribute.Key("efa.backoff.count")
	attrBackoffWait   = attribute.Key("efa.backoff.wait") // also an event of operations
	attrOutcome       = attribute.Key("efa.outcome")
	attrQueue         = attribute.Key("efa.queue")
	attrDevice        = attribute.Key("efa.device")
	attrDeviceKind    = attribute.Key("efa.device.kind")
	attrEndpoint      = attribute.Key("efa.endpoint")
)

// Events.
const (
	eventPosted     = "efa.posted"
	eventArrived    = "efa.arrived"
	eventProtocol   = "efa.protocol_chosen"
	eventSent       = "efa.packets_sent"
	eventAcked      = "efa.packets_acknowledged"
	eventReceived   = "efa.packets_received"
	eventWindow     = "efa.cts"
	eventSegment    = "efa.rdma_posted"
	eventSegments   = "efa.rdma_done"
	eventRNR        = "efa.rnr"
	eventUnexpected = "efa.unexpected"
	eventMatched    = "efa.matched"
	eventAnswer     = "efa.answer"
	eventCompleted  = "efa.completed"
	eventFailed     = "efa.failed"
	eventRestarted  = "efa.restarted"

	eventHandshakeSent     = "efa.handshake_sent"
	eventHandshakeReceived = "efa.handshake_received"
	eventReplaces          = "efa.replaces"
	eventProbe             = "efa.probe"
	eventPressure          = "efa.memory_pressure"
	eventRelieved          = "efa.memory_relieved"
)

// waits are the events of waiting, and the attributes with the sum of each.
var waits = [trail.NumReasons]string{
	trail.ForTurn:      "efa.turn.wait",
	trail.ForHandshake: "efa.handshake.wait",
	trail.ForBackoff:   string(attrBackoffWait),
	trail.ForRoom:      "efa.queue.wait",
	trail.ForMemory:    "efa.memory.wait",
	trail.ForArrival:   "efa.order.wait",
}

// answers are the events of response packets.
var answers = map[wire.Type]string{
	wire.TypeReceipt:   "efa.receipt",
	wire.TypeEOR:       "efa.eor",
	wire.TypeREADRSP:   "efa.readrsp",
	wire.TypeATOMRSP:   "efa.atomrsp",
	wire.TypeReadNACK:  "efa.read_nack",
	wire.TypePeerError: "efa.peer_error",
}
