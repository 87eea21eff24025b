package peer

import (
	"errors"
	"log/slog"
	"time"

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
	Addr     wire.RawAddr // this endpoint's own, on its first path
	ConnID   uint32       // that of Addr
	Paths    []Path       // all of them, best first
	MTU      int
	Config   Config
	Pool     *Pool
	Mem      Memory
	HeldBack HeldBack
	Weigh    bool // the endpoint is to look at what is held when the turn ends, since there is more of it
	HostIDs  HostIDs
	Log      *slog.Logger // never nil
	Trail    *trail.Log   // nil: there is none

	// Names gives what the address vector calls a handle, "" if it has no name; may be nil.
	Names func(handle uint64) string

	complaints complaints

	Counters Counters // these two last, as they are large: see ope.Pools.Steps
	Steps    Steps
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

func (e *Env) now() clock.Time { return e.Sh.Now() }

// URI is an address on one of the endpoint's paths.
func (e *Env) URI(a *wire.RawAddr, path uint8) string {
	if int(path) >= len(e.Paths) {
		return a.String()
	}
	return a.URI(e.Paths[path].Kind)
}

func (e *Env) name(handle uint64) string {
	if e.Names == nil || handle == Unlisted {
		return ""
	}
	return e.Names(handle)
}

// LogOf is the endpoint's log for what concerns a peer, which every line names: its handle and
// name if it is in the address vector, and its address. nil: of no peer. Not for the hot path.
func (e *Env) LogOf(l *Link) *slog.Logger {
	if l == nil {
		return e.Log
	}
	args := []any{"address", e.URI(&l.Addr, l.Path)}
	if l.Handle != Unlisted {
		args = append(args, "peer", l.Handle)
		if name := e.name(l.Handle); name != "" {
			args = append(args, "name", name)
		}
	}
	return e.Log.With(args...)
}

// complaints is how many BadPackets there were lately: a peer that sends garbage must not fill the
// list of events.
type complaints struct {
	spent int
	since clock.Time // when spent was counted
}

// There may be as many in a row, then one each complainEvery.
const (
	complainBurst = 8
	complainEvery = time.Second
)

// Complain has the endpoint make an event of a packet of l's, or of no known peer's if that is nil,
// which is dropped for err, unless there were many lately. Counters have them all.
func (e *Env) Complain(l *Link, err error) {
	c, now := &e.complaints, e.now()
	if n := int(now.Sub(c.since) / complainEvery); n > 0 {
		c.spent, c.since = max(c.spent-n, 0), now
	}
	if c.spent < complainBurst {
		c.spent++
		e.Sh.Tell(e.Endpoint, &BadPacket{Link: l, Err: err})
	}
}

// Counters are an endpoint's, counted by its peers and operations, one writer
// (the shard). Names of dropped input say what was wrong with it.
type Counters struct {
	PacketsRecv [256]uint64 // by packet type
	PacketsSent [256]uint64

	HandshakesSent, HandshakesRecv uint64
	Resent                         uint64 // packets sent again after RNR
	Backoffs                       uint64 // times that a peer entered back-off
	BackoffsCut                    uint64 // of them, ended by a packet that got through
	BackoffNanos                   uint64
	OutOfOrder                     uint64 // messages kept for their turn
	Overflow                       uint64 // of them, beyond the reorder window
	Probes                         uint64
	PeersFailed                    uint64
	PeersReturned                  uint64 // times that one which had failed was taken back
	PeersSilent                    uint64 // of them, those that did not respond
	Unexpected                     uint64
	Unwanted                       uint64 // messages that were thrown away as they came
	StrangersHeld                  uint64 // times that one was held back for want of room
	StrangersRested                uint64 // times that one was let go until it is heard again
	Copied                         uint64 // bytes of messages that were copied here, the device's own copies aside
	NACKsSent, NACKsRecv           uint64
	PeerErrorsSent, PeerErrorsRecv uint64
	Aborted                        uint64 // messages that the peer took back

	// Violations are steps that the tables of the operations do not have: errors of this
	// module, each of which ends an operation.
	Violations uint64

	NoRoom uint64 // times that no operation was free for a request of a peer's, which waits, or for PEER_ERROR

	// Input that was dropped.
	BadShort       uint64 // shorter than its header says
	BadType        uint64 // unknown, retired or internal packet type
	BadVersion     uint64
	BadLength      uint64 // a length or offset that does not fit
	Malformed      uint64 // of them, packets of messages, which ended
	BadID          uint64 // an operation id that is not in use
	StaleMsgID     uint64 // a msg_id that was processed already
	AbortedLate    uint64 // a packet of a message that the peer has taken back
	StaleConnID    uint64 // from a former endpoint with the same GID and QPN
	NoAddress      uint64 // a stranger that does not say who it is
	Crowded        uint64 // a stranger that is not let in for reasons of trust
	PeerOverMemory uint64
	PeersCrowded   uint64 // times that a peer came over PeerMemory
	PeerDown       uint64 // from a peer that has failed
	Refused        uint64 // an access to memory: the key, the range or the right was wrong
	RefusedKeys    uint64 // of them, keys that name nothing
}

func (c *Counters) bad(err error) {
	switch {
	case errors.Is(err, wire.ErrVersion):
		c.BadVersion++
	case errors.Is(err, wire.ErrType), errors.Is(err, wire.ErrNotSupported):
		c.BadType++
	case errors.Is(err, wire.ErrShort):
		c.BadShort++
	default:
		c.BadLength++
	}
}
