package efa

import "github.com/efactor/efactor/actors/settings"

// EndpointConfig says what endpoint to make. Its zero value works.
type EndpointConfig struct {
	// Name is what metrics and spans call the endpoint (efa.endpoint, see docs/telemetry.md):
	// what it is for, "storage" or "gradients", and not a different one each time, since each
	// name has metrics of its own. Endpoints may share one. "" is no name; at most
	// 64 bytes of UTF-8 that print.
	Name string

	AV           *AddressVector // nil: one of its own
	SendQueue    *Queue         // for posted sends, writes, reads and atomics; may be the same as RecvQueue
	RecvQueue    *Queue         // for posted receives, and peers' writes with data
	SendCounter  *Counter       // of sends; all counters may be the same
	RecvPool     *RecvPool      // receives that it shares with other endpoints, see RecvPool; nil: none
	RecvCounter  *Counter       // of receives
	WriteCounter *Counter       // of writes, and of atomics that fetch nothing
	ReadCounter  *Counter       // of reads, and of atomics that fetch
	// RemoteWriteCounter counts peers' writes with data, and, with RMAEvents, their other
	// writes and the atomics that fetch nothing.
	RemoteWriteCounter *Counter
	// RemoteReadCounter counts peers' reads, and atomics that fetch; see RMAEvents.
	RemoteReadCounter *Counter
	// RMAEvents: the endpoint tells of what peers do to memory here also where they did not
	// ask for it (FI_RMA_EVENT): by the counters above, by those of the region
	// ([MemoryRegion.CountRemote]), and by an event [RemoteServed] for each access but
	// writes with data, which are told of as always. That is so for accesses that the
	// endpoint carries out: all atomics, and emulated writes and reads. What a device does by
	// itself (RDMA; see [Completion].Protocol at the side that began it) nobody here hears
	// of, so a program that must know of all writes has its peers send data with them.
	RMAEvents bool

	// Arrivals: writes with data are counted by their data, see [Arrivals]. nil: they
	// are not, and are reported each.
	Arrivals *ArrivalsConfig

	Level        Level  // default completion level
	TxDepth      int    // most sends, writes, reads and atomics in progress, see Limits; 0: 1024
	RxDepth      int    // most receives posted or in progress; 0: 16384
	QPN          uint16 // queue pair number; 0: any free one
	EventBacklog int    // events kept for NextEvent; 0: 256
	// MinMultiRecv is when the buffer of a receive with Multi is released: when fewer bytes
	// of it are left (FI_OPT_MIN_MULTI_RECV). 0: as many as a packet has at most, see
	// Limits.MTU. [RecvReq].MinLeft takes precedence.
	MinMultiRecv int
	// NextMemory bounds the bytes that [Endpoint.Next] has lent out; 0: 256 MiB.
	NextMemory int

	// Initiate is which operations the endpoint may begin; others are ErrNotSupported. 0: all.
	Initiate Caps
	// Target is which operations peers may do to memory here through this endpoint, whatever
	// the Access of the region; CapMessages means nothing in it. What is refused is an
	// AccessRefused here, and ErrAccess at the peer if it waits to know. 0: all. Without CapRead
	// or CapWrite the endpoint does without its device's RDMA of that kind
	// (ProtocolConfig.NoRDMARead and NoRDMAWrite), so that peers who keep to the protocol ask
	// its software; one that does not, and has the key of a region with the right, must be
	// stopped by the region's Access. Direct endpoints cannot have it.
	Target Caps
	// Order is what order there is among messages, writes, reads and atomics to one peer
	// beside the order of messages and atomics, which needs none; see [Order].
	Order Order
	// Unordered: messages and atomics that come are handled as they come, so that one that is
	// late holds up nobody (FI_ORDER_NONE). Each is still received once. It is for what
	// this endpoint receives; what its peers see follows from theirs.
	Unordered bool

	// ZeroCopyRecv: messages of peers that know how land in the receiver's buffers without a
	// copy, at a queue pair of their own that the peers are told of (libfabric 1.22 to 2.5,
	// FI_OPT_MAX_MSG_SIZE; 2.1.0 with ordinary options sends as ever). Such peers,
	// this library's among them,
	//
	//   - send untagged messages of Limits.MTU bytes at most, with 32 bits of remote CQ data, and
	//     complete them when the device has acknowledged them; anything else is an error there.
	//     Writes, reads and atomics are as ever, except that libfabric has no atomics to such an endpoint.
	//   - Their messages have no order. A message that is longer than its receive's buffer is lost, and the
	//     error, ErrTruncated, does not say how long it was.
	//
	// Other peers, libfabric until 1.21 among them, send as ever: their messages are copied.
	// Receives of this endpoint are untagged and from every peer (else ErrNotSupported), and
	// there is no Peek. A buffer that the device wants registered and that is in no memory region
	// is filled by a copy. NewEndpoint fails with ErrNotSupported on devices without such queue pairs
	// (EFA cards among them at present), with Direct and with RecvPool.
	ZeroCopyRecv bool

	// Direct: the endpoint does without the protocol, as libfabric's efa-direct does (from
	// 2.1 on), and so must its peers. A message is one packet, a write or read one request
	// of the device, and the device's verdict is the outcome:
	//
	//   - Messages of Limits.MTU bytes at most, writes and reads of Limits.MaxRDMA (else
	//     ErrMsgSize), where the device has them (else ErrNotSupported). Memory of peers must
	//     be such as devices reach, as that of Domain.Alloc is.
	//   - Nothing has an order, nor a fence (ErrNotSupported). A message takes the receive that was posted first; one that
	//     is longer is cut off (ErrTruncated). Without a receive the sender's device tries
	//     again: Protocol.RNRRetry times, and if that is 0 for ever, after which the error is
	//     ErrNoRx. A write with data takes a receive on devices that are so, which is posted
	//     again; there it needs one, too.
	//   - Remote CQ data has 32 bits.
	//   - ErrNotSupported are tagged messages, receives from one peer or with Multi, Next, Peek and Claim, atomics,
	//     and the level Delivered of messages. Writes have it always.
	//   - Who sent a message is known by its queue pair: Message.From is the latest address
	//     inserted there, and Raw has no connid of others. Peers are not probed: what a dead one
	//     was sent ends as its device says.
	//   - What the device has of a canceled message it may still send; a canceled write or
	//     read ends when the device is done with it.
	//
	// Such an endpoint lives on one device, not on several. Of Protocol, SendQueue, RecvQueue
	// and RNRRetry matter.
	Direct bool
	// Datagram: the endpoint is one of unreliable datagrams (FI_EP_DGRAM), Direct but for this: a
	// send is over when the packet has left, whatever becomes of it, and without a receive
	// that waits for it a packet is lost. There are no reads and writes. Its address has no connid
	// (Q_Key 0), so that everybody whom the device lets in can send to it. It meets
	// libfabric's endpoints of that type, whose receives have 40 bytes before the message.
	Datagram bool

	Protocol ProtocolConfig
}

// ProtocolConfig are the switch points and times of the protocol. Zero values mean the
// default, which [Endpoint.Config] returns.
type ProtocolConfig = settings.Settings

// counters are all that the endpoint counts in, some of them nil.
func (cfg *EndpointConfig) counters() [6]*Counter {
	return [...]*Counter{
		cfg.SendCounter, cfg.RecvCounter, cfg.WriteCounter, cfg.ReadCounter, cfg.RemoteWriteCounter, cfg.RemoteReadCounter,
	}
}
