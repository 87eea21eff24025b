package endpoint

import (
	"fmt"
	"log/slog"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Config has the settings of an endpoint, and what it uses.
type Config struct {
	Shard  *shard.Shard
	Device device.Device
	Book   AddressBook
	// Regions are the domain's memory regions; nil if there are none.
	Regions *mr.Table
	// Plain registers memory that is in none of them; nil: it goes by copy.
	Plain *mr.Cache

	// Refuse are the accesses to Regions that peers may not make through the endpoint.
	Refuse Refusals

	// Pool has receives for messages that none of the endpoint's own takes; nil: there is none.
	// It lives on the same shard. SRXSink takes their outcomes.
	SRX     *SRX
	SRXSink SRXSink

	// Direct: the endpoint speaks no protocol, see package direct.
	Direct bool
	// Datagram, beside Direct: packets may be lost, see device.UD.
	Datagram bool

	ConnID uint32 // also the Q_Key; the caller draws it at random (§1.4)
	QPN    uint16 // 0: any
	// After is an endpoint of the same shard and device that has ended, see [Await]. The new
	// one has its queue pair numbers, except where the device chooses them, and takes over
	// the ring of requests, so that what is submitted meanwhile is handled by one of them.
	After *Endpoint
	// Settings need not have their defaults: the endpoint fills them in.
	Settings settings.InForce

	// News calls Insert for addresses that were inserted into the vector and that the endpoint has not
	// handled yet, before the endpoint treats a sender as unlisted. May be nil.
	News func()
	// OnOpen is called before the endpoint handles its first request; may be nil.
	OnOpen  func(*Endpoint)
	OnEvent func(Event) // called on the shard, must not block; may be nil
	// OnWritten is called on the shard for each write with data of a peer's; may be nil.
	OnWritten func(Written)
	// OnCounted is asked first about each such write: true says that it was counted, and that
	// is all that happens. It must not block; may be nil.
	OnCounted func(n int, data uint64) bool
	// Wanted is asked about each message of one packet that comes and that no receive takes: false says
	// that it is to be thrown away. Called on the shard, it must not block; nil: all are wanted.
	Wanted func(from uint64, tagged bool, tag uint64) bool
	// OnServed is called on the shard for each access of a peer that the endpoint has carried
	// out, and must not keep what it is given; may be nil.
	OnServed func(*Served)
	// WrittenRoom takes the place for one more OnWritten, and reports whether there was
	// one. If not, it is called again at the end of each turn. nil: there always is one.
	WrittenRoom func() bool
	OnFlush     func()          // called on the shard at the end of a turn; may be nil
	OnEnd       func(*Endpoint) // called on the shard when all has ended; may be nil
	Log         *slog.Logger
	// Trail takes records of what happens to each operation; may be nil.
	Trail *trail.Log
}

func (c *Config) setDefaults() {
	if c.Regions == nil {
		c.Regions = new(mr.Table)
	}
	if c.News == nil {
		c.News = func() {}
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	if c.OnFlush == nil {
		c.OnFlush = func() {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// AddressBook is the address vector as an endpoint sees it. Any goroutine may call it.
type AddressBook interface {
	// Address returns the raw address of a handle on this endpoint's fabric. The error
	// says why there is none: peer.ErrRemoved until every endpoint has handled Remove,
	// since requests in their rings may name the handle.
	Address(handle uint64) (wire.RawAddr, error)
	// Handle returns the handle of a raw address, and whether it has one.
	Handle(addr wire.RawAddr) (uint64, bool)
	// Name is what people call a handle's peer, "" if it has no name.
	Name(handle uint64) string
	// Age orders insertions: a later one has a higher age. The age of a handle that is
	// not in use is 0.
	Age(handle uint64) uint64
	// Now returns the age of the latest insertion.
	Now() uint64
}

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of event.
const (
	// PeerFailed: a peer has failed, and everything in progress with it.
	PeerFailed EventKind = iota + 1
	// MemoryPressure: unexpected messages use all the memory that they may. Senders
	// meet RNR until receives are posted.
	MemoryPressure
	// MemoryRelieved: MemoryPressure has ended.
	MemoryRelieved
	// DeviceFailed: the queue pair is unusable; the endpoint has ended.
	DeviceFailed
	// NewPeer: a packet came from a peer that is in no address vector; Addr is its address.
	NewPeer
	// AccessRefused: a peer asked for memory that it may not access; Err says why.
	AccessRefused
	// PeerPressure: one peer's unexpected messages use all the memory that they may. It
	// alone meets RNR until receives are posted, if the device can do that.
	PeerPressure
	// PeerRelieved: PeerPressure has ended.
	PeerRelieved
	// RemoteWritten: what OnWritten reports, where the caller makes an event of it.
	RemoteWritten
	// RemoteServed: what OnServed reports, where the caller makes an event of it.
	RemoteServed
	// EnabledAgain: what the caller reports after Open with After; Addr is the new address.
	EnabledAgain
	// BadPacket: a packet was dropped that its sender takes for arrived: it cannot be read, or
	// may not be taken. Err says why. Of many at a time only some are reported.
	BadPacket
	// StrangersCrowded: there are more peers in no address vector than MaxUnlistedPeers that
	// cannot be evicted. Further ones are held back.
	StrangersCrowded
	// StrangersRelieved: StrangersCrowded has ended.
	StrangersRelieved
	// PeerClosed: a peer has closed its endpoint; what was in progress with it has failed.
	// Not all devices report it, and it may follow PeerFailed.
	PeerClosed
)

// String gives the name in small letters, "none" of 0.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

var eventNames = [...]string{
	0:                 "none",
	PeerFailed:        "peer failed",
	MemoryPressure:    "memory pressure",
	MemoryRelieved:    "memory relieved",
	DeviceFailed:      "device failed",
	NewPeer:           "new peer",
	AccessRefused:     "access refused",
	PeerPressure:      "peer pressure",
	PeerRelieved:      "peer relieved",
	RemoteWritten:     "remote written",
	RemoteServed:      "remote served",
	EnabledAgain:      "enabled again",
	BadPacket:         "bad packet",
	StrangersCrowded:  "strangers crowded",
	StrangersRelieved: "strangers relieved",
	PeerClosed:        "peer closed",
}

// Written is a peer's write with remote CQ data that has ended.
type Written struct {
	Handle uint64 // of the peer, or peer.Unlisted
	From   *wire.RawAddr
	N      int // bytes
	Data   uint64
}

// Event is something that happened and belongs to no operation.
type Event struct {
	Kind   EventKind
	Handle uint64 // of the peer, or peer.Unlisted
	Addr   wire.RawAddr
	Path   uint8 // that Addr is on
	Err    error
}
