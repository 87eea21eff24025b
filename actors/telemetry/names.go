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
