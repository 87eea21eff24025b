package endpoint

import (
	"log/slog"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Config is what an endpoint needs. Depths of 0 mean the default in the comment.
type Config struct {
	Shard  *shard.Shard
	Device device.Device
	Book   AddressBook
	// Regions are the domain's memory regions; nil: there are none.
	Regions *mr.Table

	ConnID   uint32 // also the Q_Key; the caller draws it at random (§1.4)
	QPN      uint16 // 0: any
	SQ, RQ   int    // device queues (256 each, or what the device has)
	RNRRetry uint8  // device resends before RNR is reported

	Requests     int // places in the request ring (2048)
	MaxStrangers int // most peers that are in no address vector (4096)

	Peer        peer.Config
	Policy      ope.Policy
	DetachLimit int // bytes copied for a canceled send (1 MiB)

	OnEvent func(Event) // called on the shard, must not block; may be nil
	// OnWritten is told of each write with data of a peer's, on the shard.
	OnWritten func(Written)
	// WrittenRoom takes the place for one more OnWritten. False: there is none
	// now; it is asked again at the end of each turn. nil: there always is.
	WrittenRoom func() bool
	// OnKept is called on the shard with a request of Inject that became an
	// operation; for endpoints whose Inject is never called it may be nil.
	OnKept  func(*ope.Request)
	OnFlush func()          // called on the shard at the end of a turn; may be nil
	OnEnd   func(*Endpoint) // called on the shard when all has ended; may be nil
	Log     *slog.Logger
	// Trail takes records of what happens to each operation; nil: nobody wants them.
	Trail *trail.Log
}

// AddressBook is the address vector as an endpoint sees it; any goroutine.
type AddressBook interface {
	// Address is the raw address of a handle on this endpoint's fabric. The
	// error says why there is none: peer.ErrRemoved until Remove has told all
	// endpoints, since requests that wait for them may name the handle.
	Address(handle uint64) (wire.RawAddr, error)
	// Handle is the handle of a raw address.
	Handle(addr wire.RawAddr) (uint64, bool)
	// Age orders insertions: a later one has a higher age. Age of a handle that
	// is not in use is 0; Now is that of the latest insertion.
	Age(handle uint64) uint64
	Now() uint64
}

// EventKind tells events apart.
type EventKind uint8

// The kinds of event.
const (
	// PeerFailed: a peer is gone; everything in progress with it has failed.
	PeerFailed EventKind = iota + 1
	// MemoryPressure: unexpected messages use all the memory they may; senders
	// meet RNR until receives are posted.
	MemoryPressure
	// MemoryRelieved ends MemoryPressure.
	MemoryRelieved
	// DeviceFailed: the queue pair is unusable; the endpoint has ended.
	DeviceFailed
	// NewPeer: somebody in no address vector sent something; Addr says who.
	NewPeer
	// AccessRefused: a peer asked for memory that it may not have; Err says why.
	AccessRefused
	// RemoteWritten: OnWritten, for those who make an event of it.
	RemoteWritten
)

// Written is a peer's write with remote CQ data, complete.
type Written struct {
	Handle uint64 // of the peer, or peer.Unlisted
	From   *wire.RawAddr
	N      int // bytes
	Data   uint64
}

// Event is something that belongs to no operation.
type Event struct {
	Kind   EventKind
	Handle uint64 // of the peer, or peer.Unlisted
	Addr   wire.RawAddr
	Path   uint8 // that Addr is on
	Err    error
}

func (c *Config) setDefaults() {
	i := c.Device.Info()
	c.SQ = depth(c.SQ, 256, i.MaxSQ)
	c.RQ = depth(c.RQ, 256, i.MaxRQ)
	if c.Requests == 0 {
		c.Requests = 2048
	}
	if c.MaxStrangers == 0 {
		c.MaxStrangers = 4096
	}
	if c.DetachLimit == 0 {
		c.DetachLimit = 1 << 20
	}
	era := &c.Peer.Era
	if c.Peer.RecvWindow == 0 {
		c.Peer.RecvWindow = era.RecvWindow
	}
	if c.Policy.Rounding == 0 {
		c.Policy.Rounding = era.Rounding
	}
	c.Peer.Features = era.Knows(c.Peer.Features)
	c.Peer = c.Peer.WithDefaults()
	if c.Peer.DeviceID == 0 {
		c.Peer.DeviceID = i.PartID
	}
	if c.Regions == nil {
		c.Regions = new(mr.Table)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func depth(want, def, most int) int {
	if want == 0 {
		want = def
	}
	if most > 0 {
		want = min(want, most)
	}
	return want
}
