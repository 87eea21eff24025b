package efa

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/runtime/shard"
)

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
	// ask for it (FI_RMA_EVENT): by the counters above, and by an event [RemoteServed] for each
	// access but writes with data, which are told of as always. That is so for accesses that the
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
	// Wanted, if it is set, is asked about each message of one packet that comes and that no receive
	// takes: false has it thrown away, as [PeekReq].Discard does, and counted (Stats, "Unwanted"). from
	// is NoAddr if the sender is in no address vector. It is called by the endpoint's shard: it must
	// not block, nor call the endpoint. nil: all are wanted.
	Wanted func(from Addr, tagged bool, tag uint64) bool
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

// defaultRQ is the default of ProtocolConfig.RecvQueue.
const defaultRQ = 256

// maxName is the most bytes of EndpointConfig.Name.
const maxName = 64

// printable reports whether an endpoint may have the name.
func printable(name string) bool {
	return len(name) <= maxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// wanted is Wanted as the endpoint has it.
func (cfg *EndpointConfig) wanted() func(from uint64, tagged bool, tag uint64) bool {
	if cfg.Wanted == nil {
		return nil
	}
	return func(from uint64, tagged bool, tag uint64) bool { return cfg.Wanted(Addr(from), tagged, tag) }
}

func (cfg *EndpointConfig) check(d *Domain) error {
	p := &cfg.Protocol
	var errs []error
	bad := func(cond bool, err error, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("%w: %s", err, fmt.Sprintf(format, args...)))
		}
	}
	bad(!printable(cfg.Name), ErrInvalid, "Name is %q, want at most %d bytes of UTF-8 that print", cfg.Name, maxName)
	bad(cfg.AV != nil && cfg.AV.dom != d, ErrDomain, "the address vector is another domain's")
	for _, q := range []*Queue{cfg.SendQueue, cfg.RecvQueue} {
		bad(q != nil && q.dom != d, ErrDomain, "the queue is another domain's")
	}
	for _, n := range cfg.counters() {
		bad(n != nil && n.dom != d, ErrDomain, "the counter is another domain's")
	}
	if err := cfg.Arrivals.check(); err != nil {
		errs = append(errs, err)
	}
	bad(cfg.Datagram && cfg.Arrivals != nil, ErrNotSupported, "Arrivals with Datagram, which has no writes")
	bad((cfg.Direct || cfg.Datagram) && (cfg.RMAEvents || cfg.RemoteReadCounter != nil), ErrNotSupported,
		"RMAEvents and RemoteReadCounter with Direct: the devices carry out all accesses")
	if err := cfg.RecvPool.check(d, cfg); err != nil {
		errs = append(errs, err)
	}
	bad(cfg.Level > Delivered, ErrInvalid, "there is no completion level %d", cfg.Level)
	bad(cfg.Order&^settings.AllOrders != 0, ErrInvalid, "there is no order %#x", uint16(cfg.Order&^settings.AllOrders))
	bad(cfg.Order != 0 && (cfg.Direct || cfg.Datagram), ErrNotSupported, "an endpoint without the protocol has no Order")
	limits := d.Limits()
	for _, x := range []struct {
		name    string
		v, most int
	}{
		{"TxDepth", cfg.TxDepth, limits.MaxOps},
		{"RxDepth", cfg.RxDepth, limits.MaxOps},
		{"EventBacklog", cfg.EventBacklog, math.MaxInt},
		{"MinMultiRecv", cfg.MinMultiRecv, math.MaxInt},
		{"NextMemory", cfg.NextMemory, math.MaxInt},
		{"Protocol.SendQueue", p.SendQueue, limits.MaxSQ},
		{"Protocol.RecvQueue", p.RecvQueue, limits.MaxRQ},
		{"Protocol.Refill", p.Refill, max(cmp.Or(p.RecvQueue, min(defaultRQ, limits.MaxRQ))/2, 1)},
		{"Protocol.Credits", p.Credits, settings.MaxCredits},
		{"Protocol.MaxUnlistedPeers", p.MaxUnlistedPeers, settings.MaxUnlistedPeers},
		{"Protocol.RecvWindow", p.RecvWindow, settings.MaxRecvWindow},
		{"Protocol.DetachLimit", p.DetachLimit, math.MaxInt},
		{"Protocol.ReadSegment", p.ReadSegment, cmp.Or(limits.MaxRDMA, math.MaxInt)},
		{"Protocol.RuntSize", p.RuntSize, math.MaxInt},
		{"Protocol.PeerMemory", int(p.PeerMemory), settings.MaxMemory},
		{"Protocol.TotalMemory", int(p.TotalMemory), settings.MaxMemory},
		{"Protocol.RNRInitial", int(p.RNRInitial), math.MaxInt},
		{"Protocol.RNRMax", int(p.RNRMax), math.MaxInt},
		{"Protocol.ProbeAfter", int(p.ProbeAfter), math.MaxInt},
		{"Protocol.PeerTimeout", int(p.PeerTimeout), math.MaxInt},
	} {
		bad(x.v < 0, ErrInvalid, "%s is %d, must not be negative", x.name, x.v)
		bad(x.v > x.most, ErrInvalid, "%s is %d, at most %d", x.name, x.v, x.most)
	}
	bad(p.RNRRetry > 7, ErrInvalid, "Protocol.RNRRetry is %d, at most 7", p.RNRRetry)
	cfg.checkCaps(bad)
	return errtext.Join(errs...)
}

func (cfg *EndpointConfig) checkCaps(bad func(cond bool, err error, format string, args ...any)) {
	for name, c := range map[string]Caps{"Initiate": cfg.Initiate, "Target": cfg.Target} {
		bad(c&^capsConfig != 0, ErrInvalid, "%s has %v, which is nothing to ask for", name, c&^capsConfig)
		bad(c&CapNothing != 0 && c != CapNothing, ErrInvalid, "%s is %v: nothing and something", name, c)
	}
	bad((cfg.Direct || cfg.Datagram) && cfg.Target != 0, ErrNotSupported, "Target of a direct endpoint, whose device does what the keys allow")
}

// counters are all that the endpoint counts in, some of them nil.
func (cfg *EndpointConfig) counters() [6]*Counter {
	return [...]*Counter{
		cfg.SendCounter, cfg.RecvCounter, cfg.WriteCounter, cfg.ReadCounter, cfg.RemoteWriteCounter, cfg.RemoteReadCounter,
	}
}

// home is the shard of an endpoint, which has the pool's address vector if it has a pool.
func (cfg *EndpointConfig) home(d *Domain) *shard.Shard {
	if p := cfg.RecvPool; p != nil {
		cfg.AV = p.at.cfg.AV
		return p.at.sh
	}
	if cfg.AV == nil {
		cfg.AV = d.NewAddressVector()
	}
	return d.shard()
}

// Order is a set of orders, combined by |, for EndpointConfig: SendAfterWrite|WriteAfterWrite.
// They hold for what goes to one peer, whatever its size. The later operation waits for the
// earlier one as behind a [Fence]; writes and atomics that fetch nothing have the level
// Delivered then, if the peer knows it. Messages after messages, and atomics after atomics
// and messages, are in order always, at receivers that are not Unordered; those
// need no wait.
type Order = settings.Order

// The orders (FI_ORDER_...). An atomic is a write and a read.
const (
	SendAfterWrite  = settings.SendAfterWrite  // a message is seen after the bytes of earlier writes (SAW)
	SendAfterRead   = settings.SendAfterRead   // a message goes out after earlier reads have their data (SAR)
	WriteAfterSend  = settings.WriteAfterSend  // a write begins when earlier messages are complete (WAS)
	WriteAfterWrite = settings.WriteAfterWrite // writes land in order (WAW)
	WriteAfterRead  = settings.WriteAfterRead  // a read does not see later writes (WAR)
	ReadAfterSend   = settings.ReadAfterSend   // a read begins when earlier messages are complete (RAS)
	ReadAfterWrite  = settings.ReadAfterWrite  // a read sees earlier writes (RAW)
	ReadAfterRead   = settings.ReadAfterRead   // reads take place in order (RAR)
)

// MaxOrdered is up to how many bytes operations are in all the given orders on an endpoint with
// the configuration (max_order_raw_size and so on): math.MaxInt, or 0 if it lacks one. Among
// atomics alone, which have at most Limits.MaxAtomic bytes, order is not asked for.
func (cfg *EndpointConfig) MaxOrdered(o Order) int {
	if cfg.Order&o != o {
		return 0
	}
	return math.MaxInt
}

// Fence makes a message, a write, a read or an atomic begin when all earlier operations of
// this endpoint with the same peer are over (FI_FENCE). Nothing of it leaves before that, and
// what comes to the peer after it waits behind it. So a program that sees that it has
// happened sees all of them:
//
//   - Writes and atomics have changed the peer's memory, reads have their data.
//   - Short messages are in the peer's receive buffers or its queue of unexpected messages, in
//     front of what is fenced. Messages for which the peer must have posted a
//     receive (longer than Limits.MaxMedium, or with the level Delivered) have been received;
//     until then the fence waits.
//
// An operation that failed or was canceled is over as well: that is known by its own completion.
// A fence that is canceled while it waits ends at once. If the peer fails, it ends like those
// before it, with ErrPeerFailed; and Close ends it with ErrClosed. It waits for injected and
// Quiet operations, too. It costs the time until the last answer is here, and after writes or
// atomics that a packet carried at the level Transmitted, fenced writes and reads go by
// packets, too. Operations of other endpoints and peers are not waited for.
var Fence = OpOption{kind: optFence}

func fenced(req *ope.Request, fence bool) {
	if fence {
		req.Flags |= ope.Fence
	}
}

// Caps are kinds of operations (fi_getinfo's capabilities), for
// [EndpointConfig].Initiate and Target and [Limits].Caps.
type Caps uint16

// The kinds.
const (
	CapMessages Caps = 1 << iota // messages, tagged and not (FI_MSG, FI_TAGGED)
	CapRead                      // reads of a peer's memory (FI_RMA with FI_READ, FI_REMOTE_READ)
	CapWrite                     // writes to it (FI_RMA with FI_WRITE, FI_REMOTE_WRITE)
	CapAtomic                    // atomics on it (FI_ATOMIC)
	CapDirected                  // receives from one peer (FI_DIRECTED_RECV); of Limits only
	CapSource                    // messages tell their sender (FI_SOURCE); of Limits only
	CapNothing                   // none of them, since 0 means all; of an EndpointConfig only

	capsAll    = CapMessages | CapRead | CapWrite | CapAtomic
	capsConfig = capsAll | CapNothing
)

var capNames = []string{"messages", "read", "write", "atomic", "directed", "source", "nothing"}

// String lists the kinds: "messages|read".
func (c Caps) String() string {
	var names []string
	for i, n := range capNames {
		if c&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if c >>= len(capNames); c != 0 {
		names = append(names, fmt.Sprintf("%#x", uint16(c)<<len(capNames)))
	}
	return strings.Join(names, "|")
}

// has reports whether a setting allows a kind.
func (c Caps) has(kind Caps) bool { return c == 0 || c&kind != 0 }

// begins is the state of an endpoint that is enabled.
func (c Caps) begins() uint32 {
	if c.has(CapMessages) {
		return enabled
	}
	return mute
}

// target is what the setting Target comes to: the protocol's settings, and what peers may not
// do.
func (c Caps) target(p ProtocolConfig) (ProtocolConfig, endpoint.Refusals) {
	var r endpoint.Refusals
	if !c.has(CapRead) {
		p.NoRDMARead = true
		r |= endpoint.RefuseReads
	}
	if !c.has(CapWrite) {
		p.NoRDMAWrite = true
		r |= endpoint.RefuseWrites
	}
	if !c.has(CapAtomic) {
		r |= endpoint.RefuseAtomics
	}
	return p, r
}
