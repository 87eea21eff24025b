package peer

import (
	"log/slog"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/settings"
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
	Acceptor Acceptor  // the endpoint
	Ops      OpTable
	Addr     wire.RawAddr     // this endpoint's own, on its first path
	ConnID   uint32           // that of Addr
	Paths    []Path           // all of them, best first
	UserQP   *wire.UserRecvQP // for messages without headers; nil: there is none
	MTU      int
	Config   Config
	Pool     *Pool
	Mem      Memory
	Full     Full
	Weigh    bool // the endpoint is to look at what is held when the turn ends, since there is more of it
	HostIDs  HostIDs
	Log      *slog.Logger // never nil
	Trail    *trail.Log   // nil: nobody follows what happens

	// Names gives what the address vector calls a handle, "" if it has no name; may be nil.
	Names func(handle uint64) string

	complaints complaints

	Counters Counters // last, as they are large: see ope.Pools.Steps
}

// Path is one of the ways on which an endpoint over several devices is reached.
type Path struct {
	Addr   wire.RawAddr // this endpoint's own
	Device string       // its name
	Kind   string       // and kind, the scheme of addresses on it
	Pulse  bool         // as device.Info has it, and so
	// HoldsBack: it can hold one sender back.
	HoldsBack bool

	Features wire.Features // what HANDSHAKE tells peers there (§2.1): RDMA as the device has it
	DeviceID uint32        // and its device_version
}

// Acceptor is the endpoint as peers see it.
type Acceptor interface {
	// Accept handles Arrive: a request whose turn it is.
	Accept(*Packet)
}

// OpTable finds an operation by the id that was given to the peer on the wire.
type OpTable interface {
	// Find returns the zero Ref for an id that was never given out or whose
	// use has ended.
	Find(id uint32) shard.Ref
}

// Config are the settings in force.
type Config = settings.InForce

// Memory counts what an endpoint holds that nobody asked for: packets out of
// order and unexpected messages.
type Memory struct {
	Held int64 // bytes
	Peak int64
	// Strangers is bytes beside Held, for peers in no address vector beyond those that may be.
	Strangers int64
	Early     int64 // packets that wait for their turn in the order of messages
}

// Total is the bytes that TotalMemory bounds.
func (m *Memory) Total() int64 { return m.Held + m.Strangers }

func (e *Env) now() clock.Time { return e.Sh.Now() }
