package peer

import (
	"log/slog"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Env is what the peers and operations of one endpoint share. It belongs to the
// endpoint's shard.
type Env struct {
	Sh       *shard.Shard
	Q        *device.Queue
	Endpoint shard.Ref // gets Arrive, Stranger and Down
	Ops      OpTable
	Addr     wire.RawAddr // this endpoint's own, on its first path
	Paths    []Path       // all of them, best first
	MTU      int
	Config   Config
	Pool     *Pool
	Counters Counters
	Mem      Memory
	Log      *slog.Logger // never nil
	Trail    *trail.Log   // nil: nobody follows what happens
}

// Path is one of the ways on which an endpoint over several devices is reached.
type Path struct {
	Addr   wire.RawAddr // this endpoint's own
	Device string       // its name
}

// OpTable finds an operation by the id that was given to the peer on the wire.
type OpTable interface {
	// Find returns the zero Ref for an id that was never given out or whose
	// use has ended.
	Find(id uint32) shard.Ref
}

// Config are the settings of the protocol that concern peers. Zero values mean
// the default in the comment.
type Config struct {
	RecvWindow  int           // reorder window in messages (16)
	MsgIDBase   uint32        // first msg_id of each direction (0); both sides must agree
	RNRInitial  time.Duration // first back-off (0: random 40 to 119 us)
	RNRMax      time.Duration // longest back-off (1 s)
	ProbeAfter  time.Duration // silence before a probe (1 s)
	PeerTimeout time.Duration // silence before a peer is failed (10 s)
	PeerMemory  int64         // bytes held for one peer that nobody asked for (256 MiB)
	TotalMemory int64         // the same for the endpoint (1 GiB)
	Features    wire.Features // what HANDSHAKE advertises
	DeviceID    uint32        // device_version in HANDSHAKE
	HostID      uint64        // host_id in HANDSHAKE, 0 for none
	// Homogeneous takes it for granted that all peers have the features of this
	// endpoint, so that nothing but CTSDATA waits for their HANDSHAKE.
	Homogeneous bool
	// Era is how the endpoint talks, if not as this project does.
	Era era.Profile
	// WaitHandshake makes every first packet wait for the peer's HANDSHAKE.
	WaitHandshake bool
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.RecvWindow == 0 {
		c.RecvWindow = 16
	}
	if c.RNRMax == 0 {
		c.RNRMax = time.Second
	}
	if c.ProbeAfter == 0 {
		c.ProbeAfter = time.Second
	}
	if c.PeerTimeout == 0 {
		c.PeerTimeout = 10 * time.Second
	}
	if c.PeerMemory == 0 {
		c.PeerMemory = 256 << 20
	}
	if c.TotalMemory == 0 {
		c.TotalMemory = 1 << 30
	}
	return c
}

// Memory counts what an endpoint holds that nobody asked for: packets out of
// order and unexpected messages.
type Memory struct {
	Held  int64 // bytes
	Peak  int64
	Early int64 // packets that wait for their turn in the order of messages
}

func (e *Env) now() clock.Time { return e.Sh.Now() }
